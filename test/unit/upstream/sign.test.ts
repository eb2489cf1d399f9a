import { webcrypto } from "node:crypto";

import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { systemRandom } from "../../../src/process/random.ts";
import { createSigner } from "../../../src/upstream/sign.ts";

const UNIQUE = "abcdefghijklmnop";
const NOW = 1_700_000_000_999;

function signer(callerId: string, key: string, now = NOW, unique = UNIQUE): (target: string) => string {
  const sign = createSigner({ callerId, privateKey: () => key, now: () => now, unique16: () => unique });
  return (target) => sign(target).target;
}

function parametersOf(signed: string): URLSearchParams {
  return new URL(signed, "http://upstream.test").searchParams;
}

/** The interface's rule (section 5), by another implementation of SHA-1 than the one under test. */
async function expectedHash(callerId: string, time: string, key: string, unique: string): Promise<string> {
  const bytes = new TextEncoder().encode(callerId + time + key + unique);
  return Buffer.from(await webcrypto.subtle.digest("SHA-1", bytes)).toString("hex");
}

describe("a signature", () => {
  it.each([
    ["acme", "secret", "66e468ec86195328b0520fb610b57b1bb05c853c"],
    ["acme ab & söner", "nyckel-åäö-🔑", "d9b8161a1d2313b9723ce7ceafaf1907ed84bfe6"],
  ])("of the caller %s is the one of sha1sum", (callerId, key, hash) => {
    const parameters = parametersOf(signer(callerId, key)("/listings"));
    expect(Object.fromEntries(parameters)).toEqual({ callerId, time: "1700000000", unique: UNIQUE, hash });
  });

  it("is appended to any target without changing it", async () => {
    const target = fc.constantFrom(
      "/listings",
      "/listings?q=a%26b&limit=5",
      "/sold/7?x=%3D",
      "/areas?q=S%C3%B6",
    );
    const text = fc.string({ unit: "grapheme", minLength: 1 });
    const instant = fc.integer({ min: 0, max: 4_102_444_800_000 });
    await fc.assert(
      fc.asyncProperty(target, text, text, instant, async (target, callerId, end, now) => {
        const key = `nobody-may-see-${end}`;
        const unique = systemRandom.unique16();
        const signed = signer(callerId, key, now, unique)(target);
        const time = String(Math.floor(now / 1000));
        const hash = await expectedHash(callerId, time, key, unique);

        expect(signed.startsWith(target)).toBe(true);
        const added = new URLSearchParams(signed.slice(target.length + 1));
        expect([...added]).toEqual([
          ["callerId", callerId],
          ["time", time],
          ["unique", unique],
          ["hash", hash],
        ]);
        expect(signed[target.length]).toBe(target.includes("?") ? "&" : "?");
        // What is sent is ASCII without blanks, and never contains the key.
        expect(signed).toMatch(/^[!-~]+$/);
        expect(signed).not.toContain("nobody-may-see");
      }),
    );
  });

  it("uses the current key and time", () => {
    let key = "first";
    let now = NOW;
    const sign = createSigner({
      callerId: "acme",
      privateKey: () => key,
      now: () => now,
      unique16: () => UNIQUE,
    });
    const first = parametersOf(sign("/areas").target);
    key = "second";
    const second = parametersOf(sign("/areas").target);
    now += 1;
    const third = parametersOf(sign("/areas").target);
    expect(second.get("hash")).not.toBe(first.get("hash"));
    expect([first, second, third].map((each) => each.get("time"))).toEqual([
      "1700000000",
      "1700000000",
      "1700000001",
    ]);
  });
});

describe("unique", () => {
  it("is 16 letters and digits, and never repeats", () => {
    const made = Array.from({ length: 100_000 }, systemRandom.unique16);
    expect(made.filter((unique) => !/^[A-Za-z0-9]{16}$/.test(unique))).toEqual([]);
    expect(new Set(made).size).toBe(made.length);
  });
});

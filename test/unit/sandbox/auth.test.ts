import { describe, expect, it } from "vitest";

import { createAuthenticator, signatureOf } from "../../../src/sandbox/auth.ts";
import { CALLER, NOW_SECONDS, call, credentials, newUnique, signed, started } from "./support.ts";

function refusalOf(change: Partial<Record<string, string>>, nowSeconds = NOW_SECONDS): string | undefined {
  return createAuthenticator(CALLER, 300).refusal(new URLSearchParams(credentials(change)), nowSeconds);
}

describe("the signature", () => {
  it("is the SHA-1 of callerId, time, key and unique", () => {
    // printf 'demo1700000000secretabcdefghijklmnop' | sha1sum
    expect(signatureOf({ callerId: "demo", privateKey: "secret" }, "1700000000", "abcdefghijklmnop")).toBe(
      "851cd1a8809beba206db2ab1d4bbb722a96a7abe",
    );
  });
});

describe("an accepted request", () => {
  it.each([
    ["the caller", {}],
    ["a time at the window's far ends", { time: String(NOW_SECONDS - 300) }],
    ["a time ahead", { time: String(NOW_SECONDS + 300) }],
    ["a unique of odd characters", { unique: "a b+c/d=e&f?g.å1" }],
  ])("%s", (_name, change) => {
    expect(refusalOf(change)).toBeUndefined();
  });

  it("a hash in capitals", () => {
    const given = credentials();
    expect(refusalOf({ ...given, hash: given["hash"]!.toUpperCase() })).toBeUndefined();
  });
});

describe("a refused request", () => {
  it.each([
    ["no callerId", { callerId: "" }, "FAILURE_MISSING_PARAM - callerId"],
    ["no time", { time: "" }, "FAILURE_MISSING_PARAM - time"],
    ["no unique", { unique: "" }, "FAILURE_MISSING_PARAM - unique"],
    ["no hash", { hash: "" }, "FAILURE_MISSING_PARAM - hash"],
    ["another callerId", { callerId: "Tester" }, "FAILURE_UNKNOWN_CALLER"],
    ["a time too old", { time: String(NOW_SECONDS - 301) }, "FAILURE_INVALID_TIME"],
    ["a time too far ahead", { time: String(NOW_SECONDS + 301) }, "FAILURE_INVALID_TIME"],
    ["a time in milliseconds", { time: String(NOW_SECONDS * 1000) }, "FAILURE_INVALID_TIME"],
    ["a time with a fraction", { time: `${NOW_SECONDS}.5` }, "FAILURE_INVALID_TIME"],
    ["a unique of 15 characters", { unique: "abcdefghijklmno" }, "FAILURE_INVALID_UNIQUE"],
    ["a unique of 17 characters", { unique: "abcdefghijklmnopq" }, "FAILURE_INVALID_UNIQUE"],
    ["a wrong hash", { hash: "0".repeat(40) }, "FAILURE_INVALID_HASH"],
    ["a hash that is cut", { hash: "0" }, "FAILURE_INVALID_HASH"],
  ])("%s", (_name, change, text) => {
    expect(refusalOf(change)).toContain(text);
  });

  it("has a unique that was used before, but not one from a request with a wrong hash", () => {
    const authenticator = createAuthenticator(CALLER, 300);
    const unique = newUnique();
    const ask = (change: Partial<Record<string, string>>): string | undefined =>
      authenticator.refusal(new URLSearchParams(credentials({ unique, ...change })), NOW_SECONDS);
    expect(ask({ hash: "f".repeat(40) })).toContain("FAILURE_INVALID_HASH");
    expect(ask({})).toBeUndefined();
    expect(ask({})).toContain("FAILURE_UNIQUE_USED");
    expect(ask({ time: String(NOW_SECONDS + 1) })).toContain("FAILURE_UNIQUE_USED");
    authenticator.reset();
    expect(ask({})).toBeUndefined();
  });
});

describe("over the wire", () => {
  it("a refusal is plain text under the JSON type", async () => {
    const { url } = await started();
    const reply = await call(`${url}/listings`);
    expect(reply.status).toBe(403);
    expect(reply.headers["content-type"]).toBe("application/json");
    expect(reply.text).toBe("FAILURE_MISSING_PARAM - callerId is missing");
  });

  it("a changed key or callerId refuses requests signed with the old one, until a reset", async () => {
    const { sandbox, url } = await started();
    const status = async (): Promise<number> => (await call(url + signed("/areas"))).status;
    sandbox.setCaller({ privateKey: "turned" });
    expect(await status()).toBe(403);
    sandbox.setCaller({ privateKey: CALLER.privateKey, callerId: "turned" });
    expect(await status()).toBe(403);
    sandbox.reset();
    expect(await status()).toBe(200);
  });

  it("the time is checked by the sandbox's clock, with its skew", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ clockSkewSeconds: 400 });
    const refused = await call(url + signed("/areas"));
    expect(refused.status).toBe(403);
    expect(Date.parse(refused.headers.date ?? "")).toBe((NOW_SECONDS + 400) * 1000);
    expect((await call(url + signed("/areas", { time: String(NOW_SECONDS + 400) }))).status).toBe(200);
  });

  it("the time window can be widened", async () => {
    const { sandbox, url } = await started({ timeWindowSeconds: 10 });
    const old = { time: String(NOW_SECONDS - 60) };
    expect((await call(url + signed("/areas", old))).status).toBe(403);
    sandbox.set({ timeWindowSeconds: 60 });
    expect((await call(url + signed("/areas", old))).status).toBe(200);
  });
});

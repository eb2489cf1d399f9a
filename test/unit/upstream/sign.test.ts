import { expect, it } from "vitest";

import { systemRandom } from "../../../src/process/random.ts";
import { createSigner } from "../../../src/upstream/sign.ts";

const UNIQUE = "abcdefghijklmnop";
const NOW = 1_700_000_000_999;

function signer(callerId: string, key: string): (target: string) => string {
  const sign = createSigner(
    callerId,
    () => key,
    () => NOW,
    () => UNIQUE,
  );
  return (target) => sign(target).target;
}

it.each([
  ["acme", "secret", "66e468ec86195328b0520fb610b57b1bb05c853c"],
  ["acme ab & söner", "nyckel-åäö-🔑", "d9b8161a1d2313b9723ce7ceafaf1907ed84bfe6"],
])("a signature of the caller %s is the one of sha1sum", (callerId, key, hash) => {
  const { searchParams } = new URL(signer(callerId, key)("/listings"), "http://upstream.test");
  expect(Object.fromEntries(searchParams)).toEqual({ callerId, time: "1700000000", unique: UNIQUE, hash });
});

it("unique is 16 letters and digits, and never repeats", () => {
  const made = Array.from({ length: 10_000 }, systemRandom.unique16);
  expect(made.filter((unique) => !/^[A-Za-z0-9]{16}$/.test(unique))).toEqual([]);
  expect(new Set(made).size).toBe(made.length);
});

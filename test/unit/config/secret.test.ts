import { inspect } from "node:util";

import { expect, it } from "vitest";

import { Secret, secretsIn } from "../../../src/config/secret.ts";

const holder = { key: new Secret("s3cr3t-value") };

it.each([
  ["JSON", JSON.stringify(holder)],
  ["inspection", inspect(holder, { depth: Infinity, showHidden: true, customInspect: true })],
  ["inspection without its hook", inspect(holder, { showHidden: true, customInspect: false })],
  // oxlint-disable-next-line typescript/no-base-to-string, typescript/restrict-template-expressions
  ["a template string", `${holder.key}`],
])("%s does not show a secret", (_, shown) => {
  expect(shown).not.toContain("s3cr3t");
});

it("a secret is revealed only by reveal()", () => {
  expect(holder.key.reveal()).toBe("s3cr3t-value");
});

it("secrets are found at any depth of the settings, also as an address' password", () => {
  const settings = {
    a: { b: [new Secret("one")] },
    c: null,
    d: new Secret("redis://me:p%40ss@h"),
    e: "no secret",
  };
  expect(secretsIn(settings)).toEqual(["one", "redis://me:p%40ss@h", "p%40ss"]);
});

import { describe, expect, it } from "vitest";

import { createAuthority } from "../../support/certificates.ts";
import { MINIMAL, problemsOf } from "./config-fixture.ts";

describe("the admin port's token", () => {
  it.each(["two words, not a token\n", "only-15-letters\n"])(
    "is not %j, in a file or in a variable",
    (text) => {
      expect(problemsOf({ ...MINIMAL, ADMIN_TOKEN_FILE: "/token" }, { "/token": text })).toEqual([
        'environment variable ADMIN_TOKEN_FILE: admin.tokenFile: "/token" does not hold a token; expected one line of ' +
          "at least 16 letters, digits and -._~+/",
      ]);
      expect(problemsOf({ ...MINIMAL, ADMIN_TOKEN: text.trim() })).toHaveLength(1);
    },
  );

  it("may not be set twice", () => {
    const env = { ...MINIMAL, ADMIN_TOKEN: "t0ken-of-16-chars", ADMIN_TOKEN_FILE: "/token" };
    expect(problemsOf(env, { "/token": "t0ken-of-16-chars" })).toEqual([
      "environment variable ADMIN_TOKEN: admin.token, environment variable ADMIN_TOKEN_FILE: admin.tokenFile: " +
        "both are set; expected exactly one of the two",
    ]);
  });
});

describe("a file of certificate authorities", () => {
  const { cert, key } = createAuthority();
  const expected = "expected the path of a file with certificates in PEM form";
  it.each([
    ["is not there", {}, "cannot be read (ENOENT)"],
    ["is empty", { "/ca.pem": "" }, "contains no certificate, or an invalid one"],
    ["holds a key", { "/ca.pem": key }, "contains no certificate, or an invalid one"],
    ["is cut off", { "/ca.pem": cert.slice(0, 300) }, "contains no certificate, or an invalid one"],
    [
      "is cut off in the second",
      { "/ca.pem": cert + cert.slice(0, 300) },
      "contains no certificate, or an invalid one",
    ],
    ["is damaged", { "/ca.pem": cert.replace(/.{64}\n/, "") }, "contains no certificate, or an invalid one"],
  ])("%s", (_, files, found) => {
    const at = (variable: string, path: string): string =>
      `environment variable ${variable}: ${path}: "/ca.pem" ${found}; ${expected}`;
    expect(problemsOf({ ...MINIMAL, UPSTREAM_CA_FILE: "/ca.pem", REDIS_CA_FILE: "/ca.pem" }, files)).toEqual([
      at("UPSTREAM_CA_FILE", "upstream.caFile"),
      at("REDIS_CA_FILE", "redis.caFile"),
    ]);
  });
});

it("is not affected by NODE_TLS_REJECT_UNAUTHORIZED", () => {
  expect(problemsOf({ ...MINIMAL, NODE_TLS_REJECT_UNAUTHORIZED: "0" })).toEqual([
    expect.stringMatching(
      /^environment variable NODE_TLS_REJECT_UNAUTHORIZED: found "0".* expected it unset/,
    ),
  ]);
  expect(problemsOf({ ...MINIMAL, NODE_TLS_REJECT_UNAUTHORIZED: "1" })).toEqual([]);
});

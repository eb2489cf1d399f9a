import { describe, expect, it } from "vitest";

import { explanationIn } from "../../../src/upstream/explanation.ts";

const HASH = "0123456789abcdef0123456789ABCDEF01234567";
const CONFIDENTIAL = ["api.upstream.example", "acme ab", "K3y-of-old", "bcdefghijklmnop7", HASH];

const shown = (body: string): string | undefined => explanationIn(Buffer.from(body), CONFIDENTIAL);

describe("an explanation of the upstream", () => {
  it.each([
    ["FAILURE_MISSING_PARAM - areaId", "FAILURE_MISSING_PARAM - areaId"],
    ['"No such area"', "No such area"],
    ['{"message":"No such area (76)!","code":7}', "No such area (76)!"],
    ['{"error":"No such area"}', "No such area"],
    ['{"status":400,"detail":"G\\u00e5rden finns inte: 7,5 & 8"}', "Gården finns inte: 7,5 & 8"],
    ['{"description":"Really? \\"Yes.\\""}', 'Really? "Yes."'],
    ["  No such\r\n\tarea. \n", "No such area."],
    ["x".repeat(31), "x".repeat(31)],
    ["word ".repeat(60), "word ".repeat(60).trim()],
  ])("%j is shown as %j", (body, expected) => {
    expect(shown(body)).toBe(expected);
  });

  it.each([
    ["nothing", " \r\n "],
    ["a list", '["No such area"]'],
    ["a page", "<!DOCTYPE html><html><body>Not found</body></html>"],
    ["control characters", "No \u001b[31msuch area"],
    ["text turned around", "No such \u202earea"],
    ["the upstream's host", "API.Upstream.Example says no"],
    ["a host", "db7.prod says no"],
    ["an address", "see https://docs.example/x?y=1"],
    ["an IPv4 address", "no route to 10.0.0.5:3306."],
    ["a port", "no route to db7:3306"],
    ["a path", "failed in /var/www/x.php"],
    ["a hash", "wrong hash " + "a".repeat(40)],
    ["a long number", "at 1700000000"],
    ["a key", "wrong: k3Y-OF-old."],
    ["the caller's id", "Acme AB may not"],
    ["the signature", "unique bcdefghijklmnop7 was used"],
    ["more than 300 characters", "word ".repeat(61)],
    ["a large body", " ".repeat(9000) + "No such area"],
  ])("with %s is not shown: %j", (_name, body) => {
    expect(shown(body)).toBeUndefined();
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { explanationIn } from "../../../src/upstream/explanation.ts";

const HASH = "0123456789abcdef0123456789ABCDEF01234567";
const HOSTS = ["api.upstream.example", "images.upstream.example:8443"];

function shown(body: string): string | undefined {
  return explanationIn(Buffer.from(body), HOSTS);
}

describe("the upstream's words on a failure", () => {
  it.each([
    ["plain text", "FAILURE_MISSING_PARAM - areaId", "FAILURE_MISSING_PARAM - areaId"],
    ["JSON text", '"No such area"', "No such area"],
    ["message", '{"message":"No such area","code":7}', "No such area"],
    ["error", '{"error":"No such area"}', "No such area"],
    ["detail", '{"status":400,"detail":"G\\u00e5rden finns inte"}', "Gården finns inte"],
    ["description", '{"description":"No such area"}', "No such area"],
    ["lines and blanks", "  No such\r\n\tarea \n", "No such area"],
  ])("are shown: %s", (_name, body, expected) => {
    expect(shown(body)).toBe(expected);
  });

  it.each([
    ["nothing", ""],
    ["blanks", " \r\n "],
    ["a page", "<!DOCTYPE html><html><body>Not found</body></html>"],
    ["a page behind blanks and a byte order mark", "\ufeff \n<html>Not found</html>"],
    ["a page in JSON", '{"message":"<h1>Not found</h1>"}'],
    ["JSON that says nothing", '{"code":7,"message":{"text":"x"}}'],
    ["a number", "42"],
    ["null", "null"],
    ["a list", '["No such area"]'],
    ["control characters", "\u0000\u001b\u0007"],
  ])("are left out where there are none: %s", (_name, body) => {
    expect(shown(body)).toBeUndefined();
  });

  it.each([
    ["a host", "api.upstream.example says no", "the service says no"],
    ["a host in other letters", "API.Upstream.Example says no", "the service says no"],
    ["a host with its port", "at images.upstream.example:8443, no", "at the service, no"],
    ["a host without its port", "at images.upstream.example, no", "at the service, no"],
    ["an address", "see https://docs.example/x?y=1 for more", "see (address) for more"],
    ["an address of the host", `http://api.upstream.example/sold?hash=${HASH} failed`, "(address) failed"],
    ["a hash", `wrong hash ${HASH}.`, "wrong hash (hash)."],
    ["colours", "\u001b[31mNo such area\u001b[0m", "[31mNo such area [0m"],
    ["text turned around", "No such \u202earea\u2066", "No such area"],
  ])("are shown without %s", (_name, body, expected) => {
    expect(shown(body)).toBe(expected);
  });

  it("are shown without credentials, however they come", () => {
    const signature = `callerId=acme&time=1700000000&unique=abcdefghijklmnop&hash=${HASH}`;
    for (const body of [
      `GET /sold?areaId=1&${signature} failed`,
      `{"message":"GET /sold?areaId=1&${signature} failed"}`,
      `'${signature.toUpperCase()}' failed`,
      `key=k3y ${signature}" failed`,
      `url=%2Fsold%3F${encodeURIComponent(signature)} failed`,
    ]) {
      const text = shown(body) ?? "";
      expect(text).toContain("failed");
      expect(text).not.toMatch(/acme|1700000000|abcdefgh|0123456789|k3y/i);
    }
  });

  it("are cut at 300 characters, none of them cut in two", () => {
    expect(shown("x".repeat(300))).toBe("x".repeat(300));
    expect(shown("x".repeat(301))).toBe(`${"x".repeat(300)}…`);
    expect(shown(`${"x".repeat(299)}🏠🏠`)?.isWellFormed()).toBe(true);
  });

  it("are one line of well-formed text without addresses, whatever bytes come", () => {
    const piece = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom(
        ...HOSTS,
        `http://${HOSTS[0]}/x?`,
        HASH,
        `hash=${HASH}`,
        "\u0000",
        "\u2028",
        "<b>",
        "🏠",
      ),
    );
    const body = fc.oneof(
      fc.array(piece).map((pieces) => Buffer.from(pieces.join(" "))),
      fc.array(piece).map((pieces) => Buffer.from(JSON.stringify({ message: pieces.join("") }))),
      fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes)),
    );
    fc.assert(
      fc.property(body, (bytes) => {
        const text = explanationIn(bytes, HOSTS);
        if (text === undefined) return;
        expect(text).not.toMatch(/\p{Cc}|\u2028|\u2029/u);
        expect(text).not.toMatch(/upstream\.example|https?:\/\/|hash=/i);
        expect(text).not.toContain(HASH);
        expect(text).toBe(text.trim());
        expect(text.length).toBeLessThanOrEqual(301);
        expect(text.isWellFormed()).toBe(true);
      }),
    );
  });
});

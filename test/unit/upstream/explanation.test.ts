import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { type Confidential, explanationIn, withSignature } from "../../../src/upstream/explanation.ts";

const HASH = "0123456789abcdef0123456789ABCDEF01234567";
const HOSTS = ["api.upstream.example", "images.upstream.example:8443"];

const CONFIDENTIAL: Confidential = {
  hosts: HOSTS,
  callerId: "acme ab",
  secrets: ['K3y/of <old>&"new"', "K3y/of <old>"],
};

function shown(body: string, confidential = CONFIDENTIAL): string | undefined {
  return explanationIn(Buffer.from(body), confidential);
}

describe("the upstream's explanations", () => {
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
    ["markup alone", "\u200b<script>alert(1)</script>"],
    ["JSON that says nothing", '{"code":7,"message":{"text":"x"}}'],
    ["a number", "42"],
    ["null", "null"],
    ["a list", '["No such area"]'],
    ["control characters", "\u0000\u001b\u0007"],
  ])("are omitted if they are empty: %s", (_name, body) => {
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
    ["a hash in front of a host", `${HASH}${HOSTS[0]}`, "(hash)the service"],
    ["a hash in front of an address", `${HASH}http://${HOSTS[0]}/x`, "(hash)(address)"],
    ["an address behind a long word", `${"z".repeat(30)}http://db7/x`, `${"z".repeat(13)}(address)`],
    ["a name in front of the host", "db7.api.upstream.example says no", "the service says no"],
    ["an address of another kind", "mysql://root:pw@db7/x failed", "(address) failed"],
    ["an address as JSON writes it", "see http:\\/\\/db7\\/x", "see (address)"],
    ["a name of a private network", "db7.prod.internal:3306 and localhost", "(address) and (address)"],
    ["an IPv4 address", "no route to 10.0.0.5:3306.", "no route to (address)."],
    ["an IPv6 address", "no route to fe80::1.", "no route to (address)."],
    ["markup", "No <b class='x'>such</b> area<br/>here", "No such area here"],
    ["a script", "No such area <script>alert('<b>')</script>.", "No such area ."],
    ["a comment", "No such area <!-- db7 <b> -->", "No such area"],
    ["a tag that is never closed", "No such area <img src=x onerror=alert(1)", "No such area"],
    ["a tag in a tag", "No <<b>script>alert(1)", "No < script>alert(1)"],
    ["a key", 'wrong: K3y/of <old>&"new"', "wrong: (secret)"],
    ["a key that was in use before", "wrong: K3y/of <old>.", "wrong: (secret)."],
    ["a key in other letters", "wrong: K3Y/OF <OLD>", "wrong: (secret)"],
    ["a key in a URL", "wrong: K3y%2Fof%20%3Cold%3E K3y%2Fof+%3Cold%3E", "wrong: (secret) (secret)"],
    ["a key in HTML", "wrong: K3y/of &lt;old&gt;&amp;&quot;new&quot;", "wrong: (secret)"],
    ["a key with something invisible in it", "wrong: K3y\u200b/of <old>", "wrong: (secret)"],
    ["the caller's id", "Acme AB may not; 'acme%20ab', acme+ab", "(caller) may not; '(caller)', (caller)"],
    ["colours", "\u001b[31mNo such area\u001b[0m", "[31mNo such area [0m"],
    ["text turned around", "No such \u202earea\u2066", "No such area"],
  ])("are shown without %s", (_name, body, expected) => {
    expect(shown(body)).toBe(expected);
  });

  it.each([
    "minRooms must be < 3, not > 5",
    "acme abc has no area, xacme ab neither",
    "at 12:30:05, ratio 3:4, version 2.1",
    "capital letters, local time",
  ])("are shown unchanged: %s", (text) => {
    expect(shown(text, { ...CONFIDENTIAL, hosts: ["api"] })).toBe(text);
  });

  it("are shown without the signature of the request", () => {
    const url = `https://api.upstream.example/areas?q=x&callerId=acme+ab&time=1&unique=-bcdefghijklmno_&hash=${HASH}`;
    const text = `unique -bcdefghijklmno_ was used; ${HASH.slice(0, 20)} is not ${HASH.toLowerCase()}`;
    expect(shown(text, withSignature(CONFIDENTIAL, url))).toBe(
      `unique (secret) was used; ${HASH.slice(0, 20)} is not (secret)`,
    );
  });

  it("are cleaned fast", () => {
    const startedAt = performance.now();
    for (const unit of ["<", "<script", "</script", "<!--", "a.", "a:", "1.", "http:", "-", "acme ", "0"])
      shown(`x ${unit.repeat(65_536 / unit.length)}`);
    // A search that went back for each of 65,536 characters would take minutes.
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  it("are shown without credentials in any encoding", () => {
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

  it("are cut at 300 whole characters", () => {
    expect(shown("x".repeat(300))).toBe("x".repeat(300));
    expect(shown("x".repeat(301))).toBe(`${"x".repeat(300)}…`);
    expect(shown(`${"x".repeat(299)}🏠🏠`)?.isWellFormed()).toBe(true);
  });

  it("are one line of well-formed text without addresses, for any bytes", () => {
    const piece = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom(
        ...HOSTS,
        `http://${HOSTS[0]}/x?`,
        HASH,
        ...CONFIDENTIAL.secrets,
        "acme ab",
        "</b",
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
        const text = explanationIn(bytes, CONFIDENTIAL);
        if (text === undefined) return;
        expect(text).not.toMatch(/\p{Cc}|\u2028|\u2029/u);
        expect(text).not.toMatch(/upstream\.example|https?:\/\/|hash=/i);
        expect(text).not.toContain(HASH);
        expect(text).not.toMatch(/K3y\/of|<[a-z!/?]/i);
        expect(text).toBe(text.trim());
        expect(text.length).toBeLessThanOrEqual(301);
        expect(text.isWellFormed()).toBe(true);
      }),
    );
  });
});

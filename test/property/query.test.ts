import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { cacheKey } from "../../src/query/key.ts";
import { canonicalText, upstreamTarget } from "../../src/query/text.ts";
import { identityOf, plainTarget, randomMeanings, spell } from "../support/meanings.ts";
import { parsedTarget, understood } from "../support/understood.ts";

const seed = fc.nat(0xffff_ffff);
const meaning = seed.map((number) => randomMeanings(number, 1)[0]).filter((found) => found !== undefined);

/** Any text a caller could put into a value or a name, percent-encoded as it must be. */
const anyText = fc.string({ unit: "grapheme", maxLength: 12 });
const extraName = anyText.filter((name) => name.trim() !== "" && !name.includes("["));
const anyPairs = fc.array(fc.tuple(extraName, anyText), { maxLength: 4 });
const encoded = (pairs: readonly (readonly [string, string])[]): string =>
  pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");

describe("one meaning, one key", () => {
  it("whatever the spelling", () => {
    fc.assert(
      fc.property(meaning, seed, (meant, spelling) => {
        const expected = understood(plainTarget(meant));
        expect(expected).not.toMatch(/^refused|^nothing/);
        expect(understood(spell(meant, spelling))).toBe(expected);
      }),
      { numRuns: 3000 },
    );
  });

  it("and two meanings never share one", () => {
    fc.assert(
      fc.property(seed, (number) => {
        const meanings = randomMeanings(number, 40);
        const texts = new Set(meanings.map((meant) => understood(plainTarget(meant))));
        expect(texts.size).toBe(new Set(meanings.map(identityOf)).size);
      }),
    );
  });

  it("and canonical text is its own canonical text, and parses back to the same query", () => {
    fc.assert(
      fc.property(meaning, anyPairs, (meant, extras) => {
        const target = plainTarget(meant);
        const first = parsedTarget(`${target}${target.includes("?") ? "&" : "?"}${encoded(extras)}`);
        // An undocumented name may by chance be a documented one, with a value that is refused.
        fc.pre(first?.ok === true && first.query.kind !== "streamed");
        const text = canonicalText(first.query);
        expect(parsedTarget(`/${text}`)).toEqual(first);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("a value cannot pass for anything else", () => {
  it("in q: the upstream is asked for just that text, and two texts are two keys", () => {
    fc.assert(
      fc.property(anyText, anyText, (one, other) => {
        const asked = (text: string): string => understood(`/areas?q=${encodeURIComponent(text)}`);
        fc.pre(!asked(one).startsWith("refused"));
        const meant = one.normalize("NFC").trim();
        const sent = new URLSearchParams(asked(one).split("?")[1] ?? "").get("q");
        expect(sent).toBe(["", "undefined", "null", "NaN"].includes(meant) ? null : meant);
        if (meant !== other.normalize("NFC").trim() && sent !== null)
          expect(asked(other)).not.toBe(asked(one));
      }),
      { numRuns: 2000 },
    );
  });

  it("in an undocumented parameter: its pairs come out as they went in, sorted by name", () => {
    fc.assert(
      fc.property(anyPairs, (pairs) => {
        const parsed = parsedTarget(`/listings/1?${encoded(pairs)}`);
        fc.pre(parsed?.ok === true);
        const { query } = parsed;
        const sent = [
          ...new URLSearchParams(upstreamTarget(query, "/{resource}/{serviceId}").split("?")[1] ?? ""),
        ];
        const kept = pairs
          .map(([name, value]) => [name.trim(), value] as const)
          .filter(([name]) => !["_", "key"].includes(name) && !/^(callerid|time|unique|hash)$/i.test(name));
        expect(sent.map(([name]) => name)).toEqual(
          kept.map(([name]) => name).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)),
        );
        expect(new Set(sent.map((pair) => JSON.stringify(pair)))).toEqual(
          new Set(kept.map((pair) => JSON.stringify(pair))),
        );
      }),
    );
  });

  it("in a key: it is ASCII that cannot end a header's string, match a pattern or carry a hash tag", () => {
    fc.assert(
      fc.property(anyPairs, anyText, (pairs, q) => {
        const parsed = parsedTarget(`/listings?q=${encodeURIComponent(q)}&${encoded(pairs)}`);
        fc.pre(parsed?.ok === true && parsed.query.kind !== "streamed");
        expect(canonicalText(parsed.query)).toMatch(/^[\w/?&=%,.~!()-]+$/);
        expect(cacheKey("json", "x")).not.toBe(cacheKey("v2", "x"));
      }),
    );
  });
});

describe("whatever is sent", () => {
  it("is a query, or has at least one fault, and is never an accident", () => {
    const junk = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.stringMatching(/^\/(listings|sold|areas|cache)[/?&=%a-z0-9,.+-]*$/),
    );
    fc.assert(
      fc.property(junk, (target) => {
        const parsed = parsedTarget(target);
        if (parsed && !parsed.ok) expect(parsed.faults.length).toBeGreaterThan(0);
      }),
      { numRuns: 5000 },
    );
  });

  it("never carries a caller's signature into a key", () => {
    const name = fc.constantFrom(
      "hash",
      "Hash",
      "%68ash",
      "hash[]",
      "+hash",
      "unique",
      "time",
      "callerId",
      "CALLERID",
    );
    fc.assert(
      fc.property(meaning, name, fc.stringMatching(/^[0-9a-f]{40}$/), (meant, credential, value) => {
        const target = plainTarget(meant);
        const signed = `${target}${target.includes("?") ? "&" : "?"}${credential}=${value}`;
        expect(understood(signed)).toBe(understood(target));
      }),
    );
  });
});

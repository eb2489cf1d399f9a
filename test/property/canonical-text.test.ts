import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { isCredentialName } from "../../src/query/credentials.ts";
import type { AnyQuery } from "../../src/query/query.ts";
import { canonicalForm, upstreamTarget } from "../../src/query/write-query.ts";
import { plainTarget, randomMeaning, spell } from "../support/meanings.ts";
import { parsedTarget, understood, type Understanding } from "../support/understood.ts";

const seed = fc.nat(0xffff_ffff);
const meaning = seed.map(randomMeaning);

/** The characters of an ASCII text. */
const lettersOf = (text: string): string[] => text.split("");

/** Any text a caller could put into a name or a value: all of Unicode, and what could pass for syntax. */
const anyText = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.string({ unit: "binary", maxLength: 6 }).map((text) => text.toWellFormed()),
  fc
    .array(
      fc.constantFrom(
        ...lettersOf("&=?#+%,;/*{}[]()'\"\\ \n\0"),
        "%26",
        "limit=5",
        "q=a",
        "\u0308",
        "\u0338",
        "null",
      ),
      { maxLength: 6 },
    )
    .map((parts) => parts.join("")),
);
const anyName = fc.oneof(
  { weight: 4, arbitrary: anyText },
  fc.constantFrom("__proto__", "constructor", "toString", "q", "limit", "offset", "areaId", "Q", "[]"),
);
const anyPairs = fc.array(fc.tuple(anyName, anyText), { maxLength: 4 });
type Pairs = readonly (readonly [string, string])[];

const encoded = (pairs: Pairs): string =>
  pairs.map((pair) => pair.map((text) => encodeURIComponent(text)).join("=")).join("&");

/** Of a record, a thumbnail and a path passed through. */
const path = fc.oneof(
  fc.tuple(fc.constantFrom("listings", "sold"), fc.bigInt({ min: 0n })).map((parts) => `/${parts.join("/")}`),
  fc
    .tuple(fc.nat(), fc.integer({ min: 1, max: 140 }), fc.integer({ min: 1, max: 94 }))
    .map(([id, width, height]) => `/cache/primary_${id}_${width}x${height}.jpg`),
  anyText
    .filter((text) => !/^$|^\.\.?$|[/\\]/.test(text))
    .map((text) => `/areas/${encodeURIComponent(text)}`),
);

/** A target of any kind, with parameters of any kind. */
const target = fc
  .tuple(fc.oneof(meaning.map(plainTarget), path), anyPairs)
  .map(([start, pairs]) => `${start}${start.includes("?") ? "&" : "?"}${encoded(pairs)}`);

const options: Understanding = { passThrough: ["/areas/*"] };
const RECORD_PATH = "/{resource}/{serviceId}";

/** The query of a target, where it is not refused: an arbitrary name may by chance be a documented one. */
function queryOf(asked: string, given: Understanding = options): AnyQuery {
  const query = parsedTarget(asked, given)?.query;
  fc.pre(query !== undefined);
  return query;
}

/** Where to ask for what a canonical text says. */
const targetOf = (text: string): string => `/${text.replace(/^images\/([^?]+)/, "cache/primary_$1.jpg")}`;

it("canonical text and the upstream request parse back to the same query; it is its own canonical text", () => {
  const recordPaths = fc.constantFrom(RECORD_PATH, "/v1/{serviceId}/of/{resource}");
  fc.assert(
    fc.property(target, recordPaths, (asked, recordPath) => {
      const query = queryOf(asked);
      expect(queryOf(upstreamTarget(query, recordPath), { ...options, recordPath })).toEqual(query);
      if (query.kind === "streamed") return;
      const text = canonicalForm(query);
      expect(queryOf(targetOf(text))).toEqual(query);
      expect(understood(targetOf(text))).toBe(text);
    }),
    { numRuns: 600 },
  );
});

describe("a value cannot be mistaken for anything else", () => {
  it("in q: the upstream gets exactly that text, and two texts have two keys", () => {
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
      { numRuns: 400 },
    );
  });

  it("in an undocumented parameter: its pairs do not change, sorted by name", () => {
    fc.assert(
      fc.property(anyPairs, (pairs) => {
        const sent = new URLSearchParams(
          upstreamTarget(queryOf(`/listings/1?${encoded(pairs)}`), RECORD_PATH).split("?")[1] ?? "",
        );
        const kept = pairs
          .map(([name, value]) => [name.trim(), value])
          .filter(([name = ""]) => !["", "_", "key"].includes(name) && !isCredentialName(name))
          .sort(([a = ""], [b = ""]) => (a < b ? -1 : Number(a > b)));
        expect([...sent]).toEqual(kept);
      }),
      { numRuns: 400 },
    );
  });
});

const spelling = fc
  .tuple(
    fc.constantFrom("callerId", "time", "unique", "hash"),
    fc.constantFrom("", " ", "\t", "[]", "[a]", "[\n]", "\0", "\0x"),
    fc.constantFrom("", " ", "\n"),
    fc.nat(),
  )
  .map(([name, after, before, bits]) => {
    const mixed = lettersOf(name).map((letter, at) => ((bits >> at) & 1 ? letter.toUpperCase() : letter));
    return encodeHere(before + mixed.join("") + after, bits);
  });

it("a caller's signature is never in a key or sent upstream, in any spelling", () => {
  fc.assert(
    fc.property(target, spelling, fc.stringMatching(/^[0-9a-f]{40}(%FF)?$/), (asked, credential, value) => {
      const signed = queryOf(`${asked}&${credential}=${value}`);
      expect(signed).toEqual(queryOf(asked));
      expect(upstreamTarget(signed, RECORD_PATH)).not.toContain(value.slice(0, 40));
    }),
    { numRuns: 200 },
  );
});

/** Percent-encodes the letters that the bits choose, and all that is not a letter. */
function encodeHere(text: string, bits: number): string {
  return lettersOf(text)
    .map((letter, at) =>
      /\w/.test(letter) && !((bits >> (at + 8)) & 1)
        ? letter
        : `%${letter.charCodeAt(0).toString(16).padStart(2, "0")}`,
    )
    .join("");
}

const junk = fc.string({ unit: "binary", maxLength: 40 });
const bytes = fc
  .uint8Array({ maxLength: 12 })
  .map((codes) => [...codes].map((code) => `%${code.toString(16).padStart(2, "0")}`).join(""));
// Two halves of a surrogate pair among them: neither is a character.
const unit = fc.constantFrom(...lettersOf("%&=?+,/.[]0aE4"), "\ud83c", "\udfe0");
const broken = fc.string({ unit, maxLength: 20 });
const start = fc.constantFrom(
  "",
  "/",
  "/listings?",
  "/areas?q=",
  "/sold/",
  "/sold/7?",
  "/areas?lat=",
  "/cache/",
);

it("any request target is parsed and can be sent on, or has at least one fault, and never throws", () => {
  const oddity = fc.oneof(junk, bytes, broken);
  const spoilt = fc.tuple(meaning, seed, oddity, fc.nat()).map(([meant, spelling, what, where]) => {
    const proper = spell(meant, spelling);
    const at = where % (proper.length + 1);
    return proper.slice(0, at) + what + proper.slice(at);
  });
  const anything = fc.oneof(
    fc.tuple(start, oddity).map((parts) => parts.join("")),
    spoilt,
  );
  fc.assert(
    fc.property(anything, fc.constantFrom("forward", "reject"), (asked, unknown) => {
      const { query, faults } = parsedTarget(asked, { ...options, unknown }) ?? {};
      expect(faults).not.toEqual([]);
      if (query !== undefined) {
        const sent = upstreamTarget(query, RECORD_PATH);
        expect(sent).toMatch(/^\/[\w/?&=%,.~!()-]+$/);
        expect(queryOf(sent, { ...options, unknown })).toEqual(query);
      }
    }),
    { numRuns: 1_400 },
  );
});

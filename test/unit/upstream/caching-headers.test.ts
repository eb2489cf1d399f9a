import { describe, expect, it } from "vitest";

import type { CachingHeaders } from "../../../src/types.ts";
import { cachingHeadersIn } from "../../../src/upstream/caching-headers.ts";
import { NO_CACHING_HEADERS } from "../../support/entries.ts";

const NOW = Date.UTC(2026, 0, 15, 12);
const at = (ms: number): string => new Date(NOW + ms).toUTCString();

const read = (headers: Record<string, string>, delayMs = 0): CachingHeaders =>
  cachingHeadersIn(headers, delayMs, NOW);

it("an answer without caching headers has no directives", () => {
  expect(read({})).toEqual(NO_CACHING_HEADERS);
  expect(read({ "cache-control": "public, immutable, x-own=1", vary: "Accept" })).toEqual(NO_CACHING_HEADERS);
});

describe("the lifetime from the upstream", () => {
  it.each<[string, Record<string, string>, number | undefined]>([
    ["max-age", { "cache-control": "max-age=90" }, 90_000],
    ["s-maxage before max-age", { "cache-control": "max-age=90, s-maxage=30" }, 30_000],
    ["max-age before Expires", { "cache-control": "max-age=90", expires: at(10_000) }, 90_000],
    ["Expires, by the upstream's own clock", { date: at(-5_000), expires: at(10_000) }, 15_000],
    ["Expires, by ours where it shows none", { expires: at(10_000) }, 10_000],
    ["Expires, by ours where its own cannot be read", { date: "now", expires: at(10_000) }, 10_000],
    ["Expires in the past", { date: at(0), expires: at(-1_000) }, 0],
    ["Expires that is no date", { expires: "0" }, 0],
    ["Expires that is no date of HTTP's, of the future", { expires: "2099-01-01" }, 0],
    ["Expires that is some number, of the future", { expires: "3600" }, 0],
    ["max-age that is no number", { "cache-control": "max-age=soon" }, 0],
    ["max-age without a number", { "cache-control": "max-age" }, 0],
    ["no-cache, whatever else", { "cache-control": "no-cache, max-age=90" }, 0],
    ["nothing of it", { "cache-control": "public", date: at(0) }, undefined],
  ])("%s: %o", (_name, headers, freshForMs) => {
    expect(read(headers).freshForMs).toBe(freshForMs);
  });

  it.each<[string, Record<string, string>, number, number, number]>([
    ["in another cache", { age: "60" }, 0, 60_000, 30_000],
    ["on the way", {}, 400, 400, 89_600],
    ["both", { age: "60" }, 400, 60_400, 29_600],
    ["for longer than it is fresh", { age: "100" }, 0, 100_000, -10_000],
    ["for a time that is none", { age: "-5" }, 0, 0, 90_000],
    ["for no time, where clocks went back", {}, -20, 0, 90_000],
  ])("is reduced by the age: it was %s (%o)", (_name, headers, delayMs, ageMs, freshForMs) => {
    const said = read({ "cache-control": "max-age=90", ...headers }, delayMs);
    expect(said).toMatchObject({ ageMs, freshForMs });
  });
});

describe("permission to store from the upstream", () => {
  it.each<[string, Record<string, string>, boolean]>([
    ["no-store", { "cache-control": "no-store" }, false],
    ["private", { "cache-control": "max-age=9, Private" }, false],
    ["private, for a header", { "cache-control": 'private="set-cookie"' }, false],
    ["Vary: *", { vary: " * " }, false],
    ["Vary: *, among names", { vary: "Accept, *" }, false],
    ["Vary of what we always send", { vary: "Accept, Accept-Encoding" }, true],
    ["no-cache", { "cache-control": "no-cache" }, true],
    ["a text that has no-store in it", { "cache-control": 'x="no-store"' }, true],
  ])("%s (%o): %s", (_name, headers, mayStore) => {
    expect(read(headers).mayStore).toBe(mayStore);
  });
});

describe("the stale times from the upstream", () => {
  it.each<[string, number | undefined, number | undefined]>([
    ["max-age=9, stale-while-revalidate=5, stale-if-error=60", 5_000, 60_000],
    ["stale-if-error=0", undefined, 0],
    ["stale-while-revalidate", undefined, undefined],
    ["stale-while-revalidate=5, must-revalidate", 0, 0],
    ["proxy-revalidate", 0, 0],
    ["s-maxage=9, stale-if-error=60", 0, 0],
    ["no-cache", 0, 0],
  ])("%s", (cacheControl, staleWhileRevalidateMs, staleIfErrorMs) => {
    expect(read({ "cache-control": cacheControl })).toMatchObject({
      staleWhileRevalidateMs,
      staleIfErrorMs,
    });
  });
});

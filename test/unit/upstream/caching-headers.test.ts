/** What the conformance scenarios leave out of the upstream's caching headers. */
import { expect, it } from "vitest";

import type { CachingHeaders } from "../../../src/upstream/caching-headers.ts";
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

it.each<[string, Record<string, string>, number]>([
  ["without a Date", { expires: at(10_000) }, 10_000],
  ["with a malformed Date", { date: "now", expires: at(10_000) }, 10_000],
  ["with a Date", { date: at(-5_000), expires: at(10_000) }, 15_000],
])("Expires %s (%o) gives a lifetime of %i ms", (_name, headers, freshForMs) => {
  expect(read(headers).freshForMs).toBe(freshForMs);
});

it("an answer that arrived before it was requested, by a clock that was set back, has the age 0", () => {
  expect(read({ "cache-control": "max-age=90" }, -20)).toMatchObject({ ageMs: 0, freshForMs: 90_000 });
});

it("a directive within a quoted text does not count", () => {
  expect(read({ "cache-control": 'x="no-store"' }).mayStore).toBe(true);
});

it("stale-while-revalidate without a number does not count", () => {
  expect(read({ "cache-control": "stale-while-revalidate" }).staleWhileRevalidateMs).toBeUndefined();
});

import { describe, expect, it } from "vitest";

import { directivesOf } from "../../../src/http/directives.ts";
import { type CallerDirectives, NO_DIRECTIVES } from "../../../src/types.ts";

describe("what a request asks of the cache", () => {
  it.each<[string, Partial<CallerDirectives>]>([
    ["", {}],
    ["no-store", { noStore: true }],
    ["no-cache", { noCache: true }],
    ["only-if-cached", { onlyIfCached: true }],
    ["max-age=0", { maxAgeMs: 0 }],
    ["max-age=60", { maxAgeMs: 60_000 }],
    ["min-fresh=30", { minFreshMs: 30_000 }],
    ["max-stale=30", { maxStaleMs: 30_000 }],
    ["max-stale", { maxStaleMs: Number.POSITIVE_INFINITY }],
    ["stale-if-error=0", { staleIfErrorMs: 0 }],
    ['Max-Age="60" , NO-CACHE,max-stale=1', { maxAgeMs: 60_000, noCache: true, maxStaleMs: 1_000 }],
    ["max-age=1, max-age=2", { maxAgeMs: 1_000 }],
    // Nothing that is malformed, or means nothing in a request, counts.
    ["max-age", {}],
    ["max-age=-1", {}],
    ["max-age=1.5", {}],
    ["max-stale=soon", {}],
    ["min-fresh", {}],
    ["must-revalidate, private, s-maxage=5, no-cachet", {}],
  ])("Cache-Control: %s", (cacheControl, directives) => {
    expect(directivesOf({ "cache-control": cacheControl })).toEqual({ ...NO_DIRECTIVES, ...directives });
  });

  it.each<[string, string | undefined, string | undefined, boolean]>([
    ["counts alone", undefined, "no-cache", true],
    ["counts among others", undefined, "x, No-Cache", true],
    ["counts only where it is that", undefined, "cache", false],
    ["does not count beside Cache-Control", "max-age=60", "no-cache", false],
    ["does not count beside an empty Cache-Control", "", "no-cache", false],
    ["is not there", undefined, undefined, false],
  ])("Pragma: no-cache %s", (_name, cacheControl, pragma, noCache) => {
    expect(directivesOf({ "cache-control": cacheControl, pragma }).noCache).toBe(noCache);
  });
});

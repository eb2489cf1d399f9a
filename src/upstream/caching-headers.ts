/**
 * Reads the upstream's headers about caching (RFC 9111, sections 4.2, 5.2.2 and 5.3; RFC 5861), and writes the conditions that
 * let it answer 304 (RFC 9110, section 13). Pure.
 */
import type { IncomingHttpHeaders } from "node:http";

import { elementsOf, httpDateMs, secondsIn } from "../http-fields.ts";

/** The upstream's headers about caching an answer. Durations in milliseconds; `undefined`: absent. */
export type CachingHeaders = Readonly<ReturnType<typeof cachingHeadersIn>>;

/**
 * Reads the caching headers of an answer.
 * @param headers as Node gives them, names in lower case
 * @param tookMs the time from the request to the end of the answer, which counts as age (section 4.2.3)
 * @param now epoch milliseconds
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function cachingHeadersIn(headers: IncomingHttpHeaders, tookMs: number, now: number) {
  const { vary = "", "cache-control": cacheControl = "" } = headers;
  const directives = elementsOf(cacheControl);
  // If Age is a list, its first member counts (section 5.1).
  const [age] = (headers.age ?? "").split(",");
  const ageMs = (secondsIn(age?.trim()) ?? 0) + tookMs;
  const lifetimeMs = lifetimeIn(directives, headers, now);
  // With any of these, a shared cache must not serve the answer stale (sections 5.2.2.2, 5.2.2.8 and 5.2.2.10).
  const isNeverStale = ["must-revalidate", "proxy-revalidate", "s-maxage", "no-cache"].some((name) =>
    directives.has(name),
  );
  return {
    // `Vary: *` matches no later request (section 4.1). A shared cache must not store `private` (section 5.2.2.7).
    mayStore: !directives.has("no-store") && !directives.has("private") && !elementsOf(vary).has("*"),
    /** The age of the answer when it arrived. */
    ageMs,
    /** How long the answer stays fresh; if negative, how long it has been stale. */
    freshForMs: lifetimeMs === undefined ? undefined : lifetimeMs - ageMs,
    staleWhileRevalidateMs: isNeverStale ? 0 : secondsIn(directives.get("stale-while-revalidate")),
    staleIfErrorMs: isNeverStale ? 0 : secondsIn(directives.get("stale-if-error")),
  };
}

/** @returns the lifetime, from the first source that has one (section 4.2.1); a malformed value means 0 */
function lifetimeIn(
  directives: ReadonlyMap<string, string>,
  headers: IncomingHttpHeaders,
  now: number,
): number | undefined {
  if (directives.has("no-cache")) return 0;
  for (const name of ["s-maxage", "max-age"]) {
    const value = directives.get(name);
    if (value !== undefined) return secondsIn(value) ?? 0;
  }
  const { date, expires } = headers;
  if (expires === undefined) return undefined;
  const madeAt = httpDateMs(date, now) ?? now;
  return Math.max(0, (httpDateMs(expires, now) ?? madeAt) - madeAt);
}

/** The upstream's validators of an answer, unchanged (RFC 9110, section 8.8), and its `Cache-Control`. */
export type Validators = Readonly<ReturnType<typeof validatorsIn>>;

const ENTITY_TAG = /^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/;

/**
 * Reads the validators of an answer (RFC 9110, sections 8.8.2 and 8.8.3). Malformed ones are dropped, because a condition
 * with them could mean something else: `If-None-Match: *` matches every answer.
 * @param now epoch milliseconds
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function validatorsIn(headers: IncomingHttpHeaders, now: number) {
  const { etag, "last-modified": lastModified, "cache-control": cacheControl } = headers;
  return {
    ...(cacheControl !== undefined && { cacheControl }),
    etag: etag !== undefined && ENTITY_TAG.test(etag) ? etag : undefined,
    lastModified: httpDateMs(lastModified, now) === undefined ? undefined : lastModified,
  };
}

/** @returns the request headers that ask for the body only if it has changed since these validators */
export function conditionHeaders(cached: Validators | undefined): Record<string, string> {
  return {
    ...(cached?.etag !== undefined && { "if-none-match": cached.etag }),
    ...(cached?.lastModified !== undefined && { "if-modified-since": cached.lastModified }),
  };
}

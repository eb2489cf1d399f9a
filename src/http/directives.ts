import { type CallerDirectives, NO_DIRECTIVES } from "../types.ts";
import { elementsOf, secondsIn } from "../http-lists.ts";

/**
 * What a request asks of the cache: `Cache-Control` (RFC 9111, section 5.2.1; `stale-if-error`: RFC 5861,
 * section 4), or without it `Pragma: no-cache` (section 5.4). What is malformed or unknown is ignored.
 * @param headers as Node gives them: names in lower case, several lines of one name joined by commas
 */
export function directivesOf(headers: {
  readonly "cache-control"?: string | undefined;
  readonly pragma?: string | undefined;
}): CallerDirectives {
  const cacheControl = headers["cache-control"];
  if (cacheControl === undefined)
    return headers.pragma !== undefined && elementsOf(headers.pragma).has("no-cache")
      ? { ...NO_DIRECTIVES, noCache: true }
      : NO_DIRECTIVES;
  const directives = elementsOf(cacheControl);
  const maxStale = directives.get("max-stale");
  return {
    noStore: directives.has("no-store"),
    noCache: directives.has("no-cache"),
    onlyIfCached: directives.has("only-if-cached"),
    maxAgeMs: secondsIn(directives.get("max-age")),
    minFreshMs: secondsIn(directives.get("min-fresh")),
    // Without a number any staleness will do.
    maxStaleMs: maxStale === "" ? Number.POSITIVE_INFINITY : secondsIn(maxStale),
    staleIfErrorMs: secondsIn(directives.get("stale-if-error")),
  };
}

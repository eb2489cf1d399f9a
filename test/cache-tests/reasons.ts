/**
 * Why the gateway does not do what a test of the suite expects, or why a test says nothing about it. The numbers are
 * those of the deliberate deviations in docs/http-conformance.md.
 */
export interface Reason {
  readonly tests: RegExp;
  readonly reason: string;
}

/** Tests that cannot be played against a gateway of this kind. */
export const NOT_APPLICABLE: readonly Reason[] = [
  {
    tests: /^method-POST$|^invalidate-/,
    reason: "unsafe methods get 405 and never reach the upstream (4.4)",
  },
  { tests: /^head-/, reason: "the upstream is never asked by HEAD (4.3.5)" },
  {
    tests: /^cdn-|^surrogate-/,
    reason: "a field for content delivery networks, which the gateway does not read",
  },
];

/** For browsers only, as the suite says. */
export const FOR_BROWSERS = "the suite has it for browsers only; the gateway is a shared cache";

/** Deliberate deviations. The first that matches a failing test explains it. */
export const DEVIATIONS: readonly Reason[] = [
  { tests: /^freshness-none$/, reason: "the heuristic lifetime is the one in the settings (4.2.2)" },
  {
    tests: /^heuristic-503-not_cached$/,
    reason: "a failed call is not repeated at once; the next caller gets the same error",
  },
  {
    tests: /^heuristic-\d+|^status-(?!200|400|404)\d+|^status-200-must-understand$/,
    reason:
      "only 200, 404 and 400 are answers; anything else is a failure of the upstream and becomes a 502, 503 or 504 (3, 5.2.2.3)",
  },
  {
    tests: /^freshness-max-age-date$/,
    reason: "the upstream's `Date` does not count for the age (deviation 5)",
  },
  { tests: /^freshness-max-age-two-/, reason: "of duplicates the first counts (4.2.1)" },
  { tests: /^freshness-max-age-space-/, reason: "blanks around the equals sign are tolerated (5.2)" },
  { tests: /^freshness-max-age-(decimal|a100|100a)/, reason: "an unreadable lifetime means expired (4.2.1)" },
  {
    tests: /^age-parse-(large|larger|large-minus-one)$/,
    reason: "an answer older than `cache.maxAgeEver` is not used, even if the upstream sends it (4.2.4)",
  },
  { tests: /^age-parse-(numeric-)?parameter$/, reason: "an `Age` that is not a number is ignored (5.1)" },
  { tests: /^cc-resp-no-store-old-/, reason: "a `no-store` answer removes the older stored one (5.2.2.5)" },
  {
    tests: /^headers-omit-headers-listed-in-Cache-Control-no-cache/,
    reason: "`no-cache` with field names counts as without (5.2.2.4)",
  },
  {
    tests: /^stale-warning-/,
    reason: "`Warning` is obsolete; `Cache-Status` says that an answer is stale (5.5)",
  },
  {
    tests: /^pragma-request-no-cache$/,
    reason: "`Pragma: no-cache` counts as `no-cache` for an app that may force refreshes (5.4)",
  },
  {
    tests: /^vary-/,
    reason: "no header field of a caller reaches the upstream, so each request selects the same answer (4.1)",
  },
  {
    tests:
      /^conditional-etag-(strong|weak|quoted|unquoted)-|^conditional-304-etag$|^conditional-etag-precedence$|^304-etag-update-response-ETag$|^headers-store-ETag$/,
    reason: "the gateway's ETags are its own; the upstream's are used only to ask the upstream (3.1, 4.3.2)",
  },
  {
    tests: /^conditional-lm-fresh-no-lm$/,
    reason: "without a `Last-Modified`, `If-Modified-Since` is not evaluated (deviation 11)",
  },
  {
    tests: /^conditional-etag-(forward|vary-headers)/,
    reason: "no header field of a caller is forwarded (4.1, 4.3.1)",
  },
  {
    tests:
      /^headers-store-(Content-Encoding|Content-Length|Transfer-Encoding)$|^304-etag-update-response-Content-(Encoding|Length)$/,
    reason: "a framing or coding that contradicts the body is an unusable answer (3.3)",
  },
  { tests: /^headers-|^304-/, reason: "the gateway creates its own header fields (3.1, 3.2, deviation 8)" },
  { tests: /^other-date-/, reason: "`Date` is when the gateway sends the response (deviation 5)" },
  {
    tests: /^partial-/,
    reason: "no ranges: the whole answer is sent, and a 206 of the upstream is a failure (3.3, 3.4)",
  },
  { tests: /^other-authorization/, reason: "a caller's `Authorization` is neither read nor forwarded (3.5)" },
];

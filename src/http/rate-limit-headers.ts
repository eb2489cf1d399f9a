/**
 * Response headers that show an app what is left of its share (draft-ietf-httpapi-ratelimit-headers):
 * `RateLimit-Policy: "1m";q=60;w=60` and `RateLimit: "1m";r=50;t=30`.
 */
import type { ShareOfWindow } from "../ratelimit/overview.ts";

/** The values of the two headers. */
export interface RateLimitHeaders {
  readonly policy: string;
  readonly limit: string;
}

/** @returns the headers for an app's share of each window; `undefined` if there is no share */
export function rateLimitHeaders(shares: readonly ShareOfWindow[]): RateLimitHeaders | undefined {
  if (shares.length === 0) return undefined;
  const list = (item: (share: ShareOfWindow) => string): string =>
    shares.map((share) => `${sfString(share.name)};${item(share)}`).join(", ");
  return {
    policy: list(({ limit, windowSeconds }) => `q=${atMost(limit)};w=${atLeast(windowSeconds)}`),
    limit: list(({ remaining, resetSeconds }) => `r=${atMost(remaining)};t=${atLeast(resetSeconds)}`),
  };
}

/** @returns the shares for a response that refuses because of the budget: nothing remains before its `Retry-After` */
export function withNothingLeft(
  shares: readonly ShareOfWindow[],
  retryAfterSeconds: number,
): readonly ShareOfWindow[] {
  return shares.map((share) => ({ ...share, remaining: 0, resetSeconds: retryAfterSeconds }));
}

/** @returns {@link rateLimitHeaders} with a cache. It renders each array once, which keeps cache hits cheap. */
export function createRateLimitHeaders(): typeof rateLimitHeaders {
  const rendered = new WeakMap<readonly ShareOfWindow[], RateLimitHeaders>();
  return (shares) => {
    const known = rendered.get(shares);
    if (known !== undefined) return known;
    const headers = rateLimitHeaders(shares);
    if (headers !== undefined) rendered.set(shares, headers);
    return headers;
  };
}

/** A string of a structured field (RFC 9651, section 3.3.3). It can hold printable ASCII only. */
function sfString(text: string): string {
  return `"${text.replaceAll(/[^ -~]/g, "?").replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

/** The largest integer of a structured field (RFC 9651, section 3.3.1). */
const LARGEST = 999_999_999_999_999;

/** Rounds down, because an app cannot send a part of a request. */
function atMost(requests: number): number {
  return Math.min(LARGEST, Math.max(0, Math.floor(requests)));
}

/** Rounds up, so that an app that waits this long is not early. */
function atLeast(seconds: number): number {
  return Math.min(LARGEST, Math.max(0, Math.ceil(seconds)));
}

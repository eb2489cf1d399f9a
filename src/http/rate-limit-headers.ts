/**
 * Response headers that show an app what is left of its share (draft-ietf-httpapi-ratelimit-headers):
 * `RateLimit-Policy: "1m";q=60;w=60` and `RateLimit: "1m";r=50;t=30`.
 */
import type { ShareOfWindow } from "../ratelimit/overview.ts";

/** The values of the two headers. */
interface RateLimitHeaders {
  readonly policy: string;
  readonly limit: string;
}

/** Each array is rendered once, which keeps cache hits cheap. */
const rendered = new WeakMap<readonly ShareOfWindow[], RateLimitHeaders>();

/** @returns the headers for an app's share of each window; `undefined` if there is no share */
export function rateLimitHeaders(shares: readonly ShareOfWindow[]): RateLimitHeaders | undefined {
  if (shares.length === 0) return undefined;
  const known = rendered.get(shares);
  if (known !== undefined) return known;
  const list = (item: (share: ShareOfWindow) => string): string =>
    shares.map((share) => `"${share.name}";${item(share)}`).join(", ");
  // An app cannot send a part of a request.
  const headers = {
    policy: list(({ limit, windowSeconds }) => `q=${Math.floor(limit)};w=${windowSeconds}`),
    limit: list(({ remaining, resetSeconds }) => `r=${Math.floor(remaining)};t=${resetSeconds}`),
  };
  rendered.set(shares, headers);
  return headers;
}

/** @returns the shares for a response that refuses because of the budget: nothing remains before its `Retry-After` */
export function withNothingLeft(
  shares: readonly ShareOfWindow[],
  retryAfterSeconds: number,
): readonly ShareOfWindow[] {
  return shares.map((share) => ({ ...share, remaining: 0, resetSeconds: retryAfterSeconds }));
}

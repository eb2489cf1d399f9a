/**
 * Response headers that show an app what is left of its share (draft-ietf-httpapi-ratelimit-headers):
 * `RateLimit-Policy: "1m";q=60;w=60` and `RateLimit: "1m";r=50;t=30`.
 */
import type { ShareOfWindow } from "../ratelimit/overview.ts";

/** Each array of shares is rendered once, which keeps cache hits cheap. */
const rendered = new WeakMap<readonly ShareOfWindow[], readonly string[]>();

/** @returns the headers for an app's share of each window, alternating names and values; none if there is no share */
export function rateLimitHeaders(shares: readonly ShareOfWindow[]): readonly string[] {
  if (shares.length === 0) return [];
  const known = rendered.get(shares);
  if (known !== undefined) return known;
  const list = (item: (share: ShareOfWindow) => string): string =>
    shares.map((share) => `"${share.name}";${item(share)}`).join(", ");
  // Rounded down, because an app cannot send a part of a request.
  const policy = list(({ limit, windowSeconds }) => `q=${Math.floor(limit)};w=${windowSeconds}`);
  const limit = list(({ remaining, resetSeconds }) => `r=${Math.floor(remaining)};t=${resetSeconds}`);
  const headers = ["RateLimit-Policy", policy, "RateLimit", limit];
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

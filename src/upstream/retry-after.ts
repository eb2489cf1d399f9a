import { httpDateMs } from "../http-date.ts";

/**
 * Reads `Retry-After`: seconds, or an HTTP date (RFC 9110, section 10.2.3).
 * @param now epoch milliseconds
 * @returns milliseconds from now, at least 0; `undefined` where the header is absent or nonsense
 */
export function retryAfterMs(value: string | undefined, now: number): number | undefined {
  const text = value?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const instant = httpDateMs(text, now);
  return instant === undefined ? undefined : Math.max(0, instant - now);
}

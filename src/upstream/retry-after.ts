/** The three forms of an HTTP date, the last of which names no zone and means GMT (RFC 9110, section 5.6.7). */
const HTTP_DATE =
  /^(?:[A-Z][a-z]{2}, \d.* GMT|[A-Z][a-z]+day, \d.* GMT|(?<zoneless>[A-Z][a-z]{2} [A-Z][a-z]{2} .*\d))$/;

/**
 * Reads `Retry-After`: seconds, or an HTTP date (RFC 9110, section 10.2.3).
 * @param now epoch milliseconds
 * @returns milliseconds from now, at least 0; `undefined` where the header is absent or nonsense
 */
export function retryAfterMs(value: string | undefined, now: number): number | undefined {
  const text = value?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  // `Date.parse` finds a date in "tomorrow 12" too.
  const date = HTTP_DATE.exec(text);
  if (date === null) return undefined;
  const instant = Date.parse(date.groups?.["zoneless"] === undefined ? text : `${text} GMT`);
  return Number.isNaN(instant) ? undefined : Math.max(0, instant - now);
}

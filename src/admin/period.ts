/**
 * Periods as an operator writes them.
 */

const MS_PER_UNIT: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** So long ago. */
const AGO = /^-(\d{1,9})([smhd])$/;
/** Not of every length: `2026` and `20261121` mean something else. */
const EPOCH_SECONDS = /^(?:0|\d{9,11})$/;
/** ISO 8601 and RFC 3339: a day, or an instant with its offset. */
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const INSTANT = /^(\d{4}-\d{2}-\d{2})T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/;

/** The forms that `parseInstant` reads, for error messages. */
export const INSTANT_FORMS =
  "an instant with its offset (2026-11-21T07:00Z), a day (2026-11-21), a time ago (-24h, -7d), or epoch seconds";

/**
 * Reads an instant. A day means its beginning in UTC.
 * @param text as it was decoded from a query: an offset's plus sign that nobody encoded has become a space
 * @param now epoch milliseconds, for what is so long ago
 * @returns epoch milliseconds, not before 1970, or `undefined` where it is none
 */
export function parseInstant(text: string, now: number): number | undefined {
  const at = read(text, now);
  return at !== undefined && at >= 0 ? at : undefined;
}

function read(text: string, now: number): number | undefined {
  const [, count, unit = ""] = AGO.exec(text) ?? [];
  if (count !== undefined) return now - Number(count) * (MS_PER_UNIT[unit] ?? Number.NaN);
  if (EPOCH_SECONDS.test(text)) return Number(text) * 1_000;
  if (DAY.test(text)) return midnight(text);
  const written = text.toUpperCase().replace(/ (?=\d{2}:\d{2}$)/, "+");
  const [, day] = INSTANT.exec(written) ?? [];
  if (day === undefined || midnight(day) === undefined) return undefined;
  const at = Date.parse(written);
  return Number.isNaN(at) ? undefined : at;
}

/** @returns `undefined` where there is no such day: a Date takes February 30 for March 2 */
function midnight(day: string): number | undefined {
  const at = Date.parse(day);
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(day) ? at : undefined;
}

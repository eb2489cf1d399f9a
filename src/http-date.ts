/**
 * HTTP dates (RFC 9110, section 5.6.7). Pure.
 *
 * The parser is strict: `Date.parse` also reads "tomorrow 12", dashes, double spaces and local time zones.
 * Only the letter case is free, because a cache should match dates case-insensitively (RFC 9111, section 4.2).
 */
const DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const LONG_DAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)";
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MONTH = `(?<month>${MONTHS.join("|")})`;
const TIME = String.raw`(?<hour>[01]\d|2[0-3]):(?<minute>[0-5]\d):(?<second>[0-5]\d|60)`;

const FORMS = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  String.raw`${DAY}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT`,
  // Sunday, 06-Nov-94 08:49:37 GMT (RFC 850)
  String.raw`${LONG_DAY}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT`,
  // Sun Nov  6 08:49:37 1994 (asctime): it names no zone and means GMT.
  String.raw`${DAY} ${MONTH} (?<day>\d\d| \d) ${TIME} (?<year>\d{4})`,
].map((form) => new RegExp(`^${form}$`, "i"));

/**
 * @param now epoch milliseconds; a two-digit year is the nearest one within 50 years of it
 * @returns the instant that an HTTP date names, in epoch milliseconds; `undefined` where the value is not one
 */
export function httpDateMs(value: string | undefined, now = Date.now()): number | undefined {
  const text = value?.trim() ?? "";
  for (const form of FORMS) {
    const parts = form.exec(text)?.groups;
    if (parts !== undefined) return instantOf(parts, now);
  }
  return undefined;
}

type Parts = Readonly<Record<string, string>>;

function instantOf(parts: Parts, now: number): number | undefined {
  const year = parts["year"] ?? "";
  return instantIn(year.length === 2 ? nearestYear(parts, now) : Number(year), parts);
}

/** A date more than 50 years ahead belongs to the past (RFC 9110, section 5.6.7). */
function nearestYear(parts: Parts, now: number): number {
  const in50Years = new Date(now).setUTCFullYear(new Date(now).getUTCFullYear() + 50);
  const latestYear = new Date(in50Years).getUTCFullYear();
  const year = latestYear - ((latestYear - Number(parts["year"])) % 100);
  return (instantIn(year, parts) ?? 0) > in50Years ? year - 100 : year;
}

/** @returns `undefined` where the month does not have that day */
function instantIn(year: number, parts: Parts): number | undefined {
  const month = MONTHS.indexOf((parts["month"] ?? "").toLowerCase());
  const day = Number(parts["day"]);
  // `Date.UTC` takes years below 100 for those of the 20th century.
  const date = new Date(new Date(0).setUTCFullYear(year, month, day));
  if (date.getUTCMonth() !== month || date.getUTCDate() !== day) return undefined;
  return date.setUTCHours(Number(parts["hour"]), Number(parts["minute"]), Number(parts["second"]));
}

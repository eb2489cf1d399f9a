/**
 * Parses the values of HTTP header fields: lists (`Cache-Control`, `Prefer`), seconds and dates. Makes entity tags. Pure.
 */
import { hash } from "node:crypto";

/** @returns the opaque part of the entity tag of a body. A different body has a different one. */
export function entityTagOf(body: string | NodeJS.ArrayBufferView): string {
  return hash("sha256", body, "base64url").slice(0, 22);
}

// --- Lists of names with optional values: `Cache-Control` (RFC 9111), `Prefer` (RFC 7240) ---

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
/** A name with an optional value. */
const ELEMENT = new RegExp(String.raw`^(?<name>${TOKEN})\s*(?:=\s*(?<value>.*))?$`, "s");
const WHOLE_TOKEN = new RegExp(`^${TOKEN}$`);
const WHOLE_QUOTED = /^"((?:[^"\\]|\\.)*)"$/s;

/**
 * Parses a list.
 * @returns each name in lower case with its value; the value is `""` if there is none. Parameters after a `;` and malformed
 *   elements are dropped. If a name occurs twice, the first one wins.
 */
export function elementsOf(header: string): ReadonlyMap<string, string> {
  const elements = new Map<string, string>();
  for (const part of splitOutsideQuotes(header, ",")) {
    const [element = ""] = splitOutsideQuotes(part, ";");
    const { name, value = "" } = ELEMENT.exec(element.trim())?.groups ?? {};
    const read = valueOf(value);
    if (name === undefined || read === undefined || elements.has(name.toLowerCase())) continue;
    elements.set(name.toLowerCase(), read);
  }
  return elements;
}

/** @returns a token unchanged, a quoted string without its quotes, or `undefined` for anything else */
function valueOf(text: string): string | undefined {
  if (text === "" || WHOLE_TOKEN.test(text)) return text;
  return WHOLE_QUOTED.exec(text)?.[1]?.replaceAll(/\\(.)/gs, "$1");
}

/** Splits in one pass, so that a header with many quotes or blanks takes linear time. */
function splitOutsideQuotes(text: string, separator: string): string[] {
  const parts: string[] = [];
  let from = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (quoted && character === "\\") at++;
    else if (character === '"') quoted = !quoted;
    else if (character === separator && !quoted) {
      parts.push(text.slice(from, at));
      from = at + 1;
    }
  }
  return [...parts, text.slice(from)];
}

// --- Seconds (RFC 9111, section 1.2.2) ---

/** Larger numbers are reduced to this one. */
const MOST_SECONDS = 2 ** 31;

/**
 * Parses a whole number of seconds.
 * @returns milliseconds; `undefined` if the value is not a whole number
 */
export function secondsIn(value: string | undefined): number | undefined {
  if (value === undefined || !/^\d+$/.test(value)) return undefined;
  return Math.min(Number(value), MOST_SECONDS) * 1000;
}

// --- Dates (RFC 9110, section 5.6.7) ---
// The parser is strict, because `Date.parse` also accepts "tomorrow 12", dashes, double spaces and local time zones.
// It ignores letter case, as a cache should do (RFC 9111, section 4.2).

const DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const LONG_DAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)";
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MONTH = `(?<month>${MONTHS.join("|")})`;
const TIME = String.raw`(?<hour>[01]\d|2[0-3]):(?<minute>[0-5]\d):(?<second>[0-5]\d|60)`;

const DATE = new RegExp(
  [
    // Sun, 06 Nov 1994 08:49:37 GMT
    String.raw`^${DAY}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT$`,
    // Sunday, 06-Nov-94 08:49:37 GMT (RFC 850)
    String.raw`^${LONG_DAY}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT$`,
    // Sun Nov  6 08:49:37 1994 (asctime), always GMT
    String.raw`^${DAY} ${MONTH} (?<day>\d\d| \d) ${TIME} (?<year>\d{4})$`,
  ].join("|"),
  "i",
);

/**
 * Parses an HTTP date.
 * @param now epoch milliseconds; a two-digit year means the latest such year that is at most 50 years after `now`
 * @returns epoch milliseconds; `undefined` if the value is not an HTTP date
 */
export function httpDateMs(value: string | undefined, now: number): number | undefined {
  const parts = DATE.exec(value?.trim() ?? "")?.groups;
  if (parts === undefined) return undefined;
  const year = parts["year"] ?? "";
  if (year.length > 2) return instantIn(Number(year), parts);
  // A two-digit year that seems more than 50 years ahead is in the past (RFC 9110, section 5.6.7).
  const in50Years = new Date(now).setUTCFullYear(new Date(now).getUTCFullYear() + 50);
  return [2100, 2000, 1900]
    .map((century) => instantIn(century + Number(year), parts))
    .find((at) => at !== undefined && at <= in50Years);
}

/** @returns `undefined` if the month has no such day */
function instantIn(year: number, parts: Readonly<Record<string, string>>): number | undefined {
  const month = MONTHS.indexOf((parts["month"] ?? "").toLowerCase());
  const day = Number(parts["day"]);
  // `Date.UTC` would read a year below 100 as one of the 20th century.
  const date = new Date(new Date(0).setUTCFullYear(year, month, day));
  if (date.getUTCDate() !== day) return undefined;
  return date.setUTCHours(Number(parts["hour"]), Number(parts["minute"]), Number(parts["second"]));
}

/** The three forms of an HTTP date, the last of which names no zone and means GMT (RFC 9110, section 5.6.7). */
const HTTP_DATE =
  /^(?:[A-Z][a-z]{2}, \d.* GMT|[A-Z][a-z]+day, \d.* GMT|(?<zoneless>[A-Z][a-z]{2} [A-Z][a-z]{2} .*\d))$/;

/** @returns epoch milliseconds; `undefined` where the text is no HTTP date */
export function httpDateMs(text: string | undefined): number | undefined {
  // `Date.parse` finds a date in "tomorrow 12" and in "3600" too.
  const date = HTTP_DATE.exec(text?.trim() ?? "");
  if (date === null) return undefined;
  const [written] = date;
  const instant = Date.parse(date.groups?.["zoneless"] === undefined ? written : `${written} GMT`);
  return Number.isNaN(instant) ? undefined : instant;
}

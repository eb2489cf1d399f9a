/** The three forms of an HTTP date, the last of which names no zone and means GMT (RFC 9110, section 5.6.7). */
const HTTP_DATE =
  /^(?:[A-Z][a-z]{2}, \d.* GMT|[A-Z][a-z]+day, \d.* GMT|(?<zoneless>[A-Z][a-z]{2} [A-Z][a-z]{2} .*\d))$/;

/** @returns the instant that an HTTP date names, epoch milliseconds; `undefined` where it is none. Pure. */
export function httpDateMs(value: string | undefined): number | undefined {
  const text = value?.trim() ?? "";
  // `Date.parse` finds a date in "tomorrow 12" too.
  const date = HTTP_DATE.exec(text);
  if (date === null) return undefined;
  const instant = Date.parse(date.groups?.["zoneless"] === undefined ? text : `${text} GMT`);
  return Number.isNaN(instant) ? undefined : instant;
}

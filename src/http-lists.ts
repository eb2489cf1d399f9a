/**
 * Header fields that are lists of names, each with a value where there is one: `Prefer` (RFC 7240) and
 * `Cache-Control` (RFC 9111). Pure.
 */

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
/** A name, and a value where there is one. */
const ELEMENT = new RegExp(String.raw`^(?<name>${TOKEN})\s*(?:=\s*(?<value>.*))?$`, "s");
const WHOLE_TOKEN = new RegExp(`^${TOKEN}$`);
const WHOLE_QUOTED = /^"((?:[^"\\]|\\.)*)"$/s;

/**
 * The elements of a list: names in lower case with their values, `""` where there is none; what follows a
 * `;` is left out. Of a name that is given twice the first counts. What is malformed is left out.
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

/** A token stands for itself, a quoted string for what is in it. */
function valueOf(text: string): string | undefined {
  if (text === "" || WHOLE_TOKEN.test(text)) return text;
  return WHOLE_QUOTED.exec(text)?.[1]?.replaceAll(/\\(.)/gs, "$1");
}

/** One pass: a header of nothing but quotes or blanks must not take the time of its length squared. */
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

/** The most seconds that count; more is as good as for ever (RFC 9111, section 1.2.2). */
const MOST_SECONDS = 2 ** 31;

/** @returns milliseconds of a number of seconds; `undefined` where it is none (RFC 9111, section 1.2.2) */
export function secondsIn(value: string | undefined): number | undefined {
  if (value === undefined || !/^\d+$/.test(value)) return undefined;
  return Math.min(Number(value), MOST_SECONDS) * 1000;
}

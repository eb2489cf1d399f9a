/**
 * Reads one parameter value by its documented shape (interface/parameters.ts has them), and returns its canonical form.
 *
 * Numbers are handled as text, because floating point would change large ones.
 */
import type { Shape, TuplePart } from "../interface/parameters.ts";
import { nearest } from "../interface/intended-name.ts";

/** The canonical form of a value; `undefined` for no value; or why the value is refused. */
export type Reading = string | undefined | { readonly expected: string; readonly hint?: string };

/** Texts that some clients send for "no value", for example for an undefined JavaScript variable. */
const NO_VALUE = new Set(["", "undefined", "null", "NaN"]);

/** Whether a value means the same as an absent parameter. */
export function meansAbsent(value: string): boolean {
  return NO_VALUE.has(value.trim());
}

/**
 * Reads a value.
 * @param raw the decoded value, not trimmed
 */
export function readValue(shape: Shape, raw: string): Reading {
  const text = raw.normalize("NFC").trim();
  if (meansAbsent(text)) return undefined;
  switch (shape.kind) {
    case "text":
      return CONTROL.test(text) ? { expected: "text without control characters" } : text;
    case "integer":
    case "decimal":
      return readNumber(shape, text);
    case "date":
      return readDate(text);
    case "switch":
      return readSwitch(text.toLowerCase());
    case "idSet":
      return readIdSet(text);
    case "wordSet":
      return readWordSet(shape.words, text);
    case "tuple":
      return readTuple(shape.parts, text);
  }
}

// eslint-disable-next-line no-control-regex -- the expression must find control characters
const CONTROL = /[\u0000-\u001f\u007f]/;

function readSwitch(text: string): Reading {
  const digit = { true: "1", false: "0" }[text] ?? canonicalDecimal(text);
  return digit === "1" || digit === "0" ? digit : { expected: "1 or 0" };
}

const NUMBER = /^([+-]?)(\d*)(?:\.(\d*))?$/;

/**
 * The canonical form of a decimal number: without plus sign, leading zeros, trailing zeros of the fraction, and without a
 * minus sign before zero.
 * @returns `undefined` if the text is not a decimal number
 */
function canonicalDecimal(text: string): string | undefined {
  const match = NUMBER.exec(text);
  if (!match) return undefined;
  const [, sign = "", wholePart = "", fractionPart = ""] = match;
  if (wholePart === "" && fractionPart === "") return undefined;
  const whole = wholePart.replace(/^0+(?=\d)/, "") || "0";
  // Without the lookbehind, the expression would take quadratic time for many zeros that are not at the end.
  const fraction = fractionPart.replace(/(?<!0)0+$/, "");
  const digits = fraction === "" ? whole : `${whole}.${fraction}`;
  return sign === "-" && digits !== "0" ? `-${digits}` : digits;
}

function readNumber(shape: Extract<Shape, { kind: "integer" | "decimal" }>, text: string): Reading {
  const canonical = canonicalDecimal(text);
  const isWhole = shape.kind === "integer";
  if (canonical !== undefined && !(isWhole && canonical.includes(".")) && isWithin(canonical, shape))
    return canonical;
  return { expected: `${isWhole ? "a whole number" : "a decimal number"}${boundsInWords(shape)}` };
}

/** No shape has `max` alone. */
type Bounds = Pick<TuplePart, "min" | "max">;

function isWithin(canonical: string, { min = -Infinity, max = Infinity }: Bounds): boolean {
  return Number(canonical) >= min && Number(canonical) <= max;
}

function boundsInWords({ min, max }: Bounds): string {
  if (min === undefined) return "";
  return max === undefined ? ` of at least ${min}` : ` from ${min} to ${max}`;
}

const DATE = /^(\d{4})(-?)(\d{2})\2(\d{2})$/;

function readDate(text: string): Reading {
  const [, year = "", , month = "", day = ""] = DATE.exec(text) ?? [];
  const instant = new Date(`${year}-${month}-${day}T00:00:00Z`);
  // A day that does not exist, such as 30 February, fails to parse or becomes another day.
  const exists = !Number.isNaN(instant.getTime()) && instant.getUTCDate() === Number(day);
  return exists ? `${year}${month}${day}` : { expected: "a calendar day as YYYYMMDD" };
}

/** @returns the items of a list, without those that mean no value */
function items(text: string): string[] {
  return text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => !meansAbsent(item));
}

/** Numeric order of canonical whole numbers: by length, then by digits. */
function byNumber(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : Number(a > b));
}

function readIdSet(text: string): Reading {
  const ids = new Set(items(text).map((item) => canonicalDecimal(item) ?? ""));
  for (const id of ids)
    if (!/^\d+$/.test(id)) return { expected: "a whole number, or several separated by commas" };
  return [...ids].sort(byNumber).join(",") || undefined;
}

function readWordSet(words: readonly string[], text: string): Reading {
  const given = new Set(items(text).map((item) => item.toLowerCase()));
  for (const word of given) {
    if (words.includes(word)) continue;
    const near = nearest(word, words);
    const expected = `one or more of ${words.join(", ")}, separated by commas`;
    return near === undefined ? { expected } : { expected, hint: `did you mean ${near}?` };
  }
  // The canonical order is that of the interface.
  return words.filter((word) => given.has(word)).join(",") || undefined;
}

function readTuple(parts: readonly TuplePart[], text: string): Reading {
  const given = text.split(",").map((part) => canonicalDecimal(part.trim()));
  const named = new Map(parts.map(({ name }, i) => [name, given[i]]));
  const fits = ({ name, notAbove, ...bounds }: TuplePart): boolean => {
    const value = named.get(name);
    return (
      value !== undefined &&
      isWithin(value, bounds) &&
      (notAbove === undefined || Number(value) <= Number(named.get(notAbove)))
    );
  };
  if (given.length === parts.length && parts.every(fits)) return given.join(",");
  const names = parts.map((part) => part.name).join(",");
  const inWords = (part: TuplePart): string =>
    part.name + boundsInWords(part) + (part.notAbove === undefined ? "" : ` and not above ${part.notAbove}`);
  const bounds = parts.map(inWords).join(", ");
  return { expected: `${parts.length} decimal numbers ${names} separated by commas (${bounds})` };
}

/**
 * Joins the values of a repeated parameter that are the items of one list. Some clients send `bbox=1&bbox=2&bbox=3&bbox=4`.
 * @returns the values to read, each alone
 */
export function joinItems(shape: Shape, given: readonly string[]): readonly string[] {
  const areItems =
    shape.kind === "idSet" ||
    shape.kind === "wordSet" ||
    (shape.kind === "tuple" &&
      given.length === shape.parts.length &&
      !given.some((value) => value.includes(",")));
  return areItems && given.length > 1 ? [given.join(",")] : given;
}

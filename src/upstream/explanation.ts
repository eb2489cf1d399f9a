/**
 * The upstream's explanation of an error. The interface promises "a short piece of further information" (section 7) but does
 * not define its form, so plain text and JSON are both accepted.
 *
 * Callers and the log get it only if it is harmless: one short line of words. A text with an address, a path, markup, a long
 * number, a long word or a confidential text is not shown at all.
 */
import { attempt } from "../process/attempt.ts";

/** A longer body is no short explanation. */
const LONGEST_BODY = 8 * 1024;
const HARMLESS = /^[\p{L}\p{N} .,;:!?'"()%+&*_-]{1,300}$/u;
/** A dot or a colon inside a word as in hosts, addresses and file names; or a long word or number as in hashes and keys. */
const SUSPICIOUS = /[.:](?![ "')]|$)|[\p{L}\p{N}_]{32}|\d{10}/u;

/**
 * Extracts the explanation from the body of an error.
 * @param confidential texts that nobody may see: hosts, the caller id, keys, the signature
 * @returns one line of plain text; `undefined` if there is none that may be shown
 */
export function explanationIn(body: Buffer, confidential: readonly string[]): string | undefined {
  const text = body.length > LONGEST_BODY ? "" : messageIn(body.toString("utf8"));
  const line = text.replaceAll(/\s+/g, " ").trim();
  const plain = line.toLowerCase();
  const isHarmless =
    HARMLESS.test(line) &&
    !SUSPICIOUS.test(line) &&
    !confidential.some((secret) => plain.includes(secret.toLowerCase()));
  return isHarmless ? line : undefined;
}

/** @returns the text itself, or the usual member of a JSON object */
function messageIn(text: string): string {
  const parsed: unknown = attempt(() => JSON.parse(text));
  if (parsed === undefined) return text;
  if (typeof parsed === "string") return parsed;
  const members = ["message", "error", "detail", "description"].map((name): unknown => Object(parsed)[name]);
  return members.find((member) => typeof member === "string") ?? "";
}

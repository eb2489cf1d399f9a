/**
 * Credentials in requests.
 *
 * Callers send keys and tokens by mistake. These must go nowhere: not upstream, not into a key, a cache or the log. And
 * nobody may use the gateway to find out whether a guess is one of its own secrets, so a response must not depend on
 * whether the guess is right.
 *
 * | Place                                    | Result                                                              |
 * |------------------------------------------|---------------------------------------------------------------------|
 * | a parameter with the name of a credential | the parameter is dropped, with any value                           |
 * | free text that has the form of a credential | 400, whether it is a secret or not: no place has such a name      |
 * | any other place                          | a true secret is replaced by a random text of the same form, and treated like any other value |
 * | an error, or the key in `Cache-Status`   | a text that could be a secret is not shown, whether it is one or not |
 */
import { CREDENTIAL_PARAMETERS } from "../interface/parameters.ts";

/** What stands in a response for a value that looks like a credential. */
const NOT_SHOWN = "[not shown]";

const SIGNATURE_NAMES = new Set(CREDENTIAL_PARAMETERS.map((name) => name.toLowerCase()));
/** Without separators and in lower case: `X-Api-Key` is `xapikey`. */
const CREDENTIAL_NAME =
  /^(?:key|token|secret|passw(?:or)?d|pwd|auth|authorization|bearer|credentials?|signature|sig)$|(?:api|private|access|secret|client|admin|auth|app)(?:key|token|secret|password)$/;

/** Whether a parameter belongs to a signature (interface, section 5), or has the name of a key, token or password. */
export function isCredentialName(name: string): boolean {
  // PHP, which reads these at the other end, ends a name at its bracket or its zero byte.
  const [bare = ""] = name.toLowerCase().split(/[[\0]/, 1);
  return SIGNATURE_NAMES.has(bare.trim()) || CREDENTIAL_NAME.test(bare.replaceAll(/[^a-z]/g, ""));
}

/** Shorter texts are house numbers, ids and typing mistakes. */
const SHORTEST = 8;
/** A digit between letters, or a letter between digits. `Storgatan12B` does not match, because it is a house. */
const MIXED = /\p{L}.*\d.*\p{L}.*[\p{L}\d]|\d.*\p{L}.*\d/u;
const TIMESTAMP = /^\d{4}-?\d\d-?\d\dT[\d:.]{0,20}(?:Z|[+-]\d\d:?\d\d)?$/;

/** In text that was encoded twice, as some callers do with `Södermalm`. */
const ENCODED_BYTE = /%[0-9a-f]{2}/gi;

/** Whether a part of the text, between spaces and commas, mixes letters and digits like a key. */
export function looksLikeCredential(text: string): boolean {
  return text.length >= SHORTEST && text.split(/[\s,]+/).some(isCredential);
}

function isCredential(part: string): boolean {
  if (part.length < SHORTEST || TIMESTAMP.test(part)) return false;
  return MIXED.test(part.replaceAll(ENCODED_BYTE, "-"));
}

/** Words that are no generated secret: short ones of letters only, numbers, dates and coordinates. */
const ORDINARY = /^(?:\p{L}{0,20}|[\d.:;+-]*)$/u;

/** @returns the text as an error may show it to its caller; `[not shown]` if it may be a secret */
export function shownToCaller(text: string): string {
  const words = text.replaceAll(ENCODED_BYTE, "").split(/[\s,]+/);
  const isOrdinary = words.every((word) => word.length < SHORTEST || ORDINARY.test(word));
  return isOrdinary ? text : NOT_SHOWN;
}

/**
 * @param secrets every secret of the gateway so far; the list may grow
 * @param fraction random, from 0 up to 1
 * @returns a function that replaces each secret in a text, always by the same pseudonym
 */
export function createConceal(secrets: readonly string[], fraction: () => number): (text: string) => string {
  const pseudonyms = new Map<string, string>();
  const pseudonymOf = (secret: string): string => {
    const known = pseudonyms.get(secret) ?? ofSameForm(secret, fraction);
    pseudonyms.set(secret, known);
    return known;
  };
  return (text) =>
    secrets.reduce(
      (rest, secret) => (rest.includes(secret) ? rest.replaceAll(secret, () => pseudonymOf(secret)) : rest),
      text,
    );
}

/** A random text of the same form: it gets the same response as any other guess of that form. */
function ofSameForm(secret: string, fraction: () => number): string {
  const pick = (characters: string): string => characters.charAt(Math.floor(fraction() * characters.length));
  return secret
    .replaceAll(/[a-z]/g, () => pick("abcdefghijklmnopqrstuvwxyz"))
    .replaceAll(/[A-Z]/g, () => pick("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    .replaceAll(/\d/g, () => pick("0123456789"));
}

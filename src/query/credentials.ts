/**
 * Credentials in requests.
 *
 * Callers send keys and tokens by mistake. The gateway must not send them upstream, and must not put them into a key, the
 * cache or the log. A caller must not learn whether a guess is one of the gateway's own secrets, so a response must not
 * depend on whether the guess is right.
 *
 * | Place                                    | Result                                                              |
 * |------------------------------------------|---------------------------------------------------------------------|
 * | a parameter with the name of a credential | the parameter is dropped, whatever its value                       |
 * | free text with the form of a credential  | 400, whether it is a secret or not, because no place has such a name |
 * | any other place                          | a true secret is replaced by a random text of the same form         |
 * | an error, or the key in `Cache-Status`   | a text that could be a secret is not shown, whether it is one or not |
 */
import { CREDENTIAL_PARAMETERS } from "../interface/parameters.ts";

/** Replaces a value in a response that looks like a credential. */
const NOT_SHOWN = "[not shown]";

const SIGNATURE_NAMES = new Set(CREDENTIAL_PARAMETERS.map((name) => name.toLowerCase()));
/** Without separators and in lower case: `X-Api-Key` is `xapikey`. */
const CREDENTIAL_NAME =
  /^(?:key|token|secret|passw(?:or)?d|pwd|auth|authorization|bearer|credentials?|signature|sig)$|(?:api|private|access|secret|client|admin|auth|app)(?:key|token|secret|password)$/;

/** Whether a parameter belongs to a signature (interface, section 5), or has the name of a key, token or password. */
export function isCredentialName(name: string): boolean {
  // PHP, which the upstream seems to use, ignores the rest of a name after a bracket or a zero byte.
  const [bare = ""] = name.toLowerCase().split(/[[\0]/, 1);
  return SIGNATURE_NAMES.has(bare.trim()) || CREDENTIAL_NAME.test(bare.replaceAll(/[^a-z]/g, ""));
}

/** Shorter texts are house numbers, ids and typing mistakes. */
const SHORTEST = 8;
/**
 * A digit between letters, or a letter between digits. House numbers such as `Storgatan12B` must not match. Each part ends
 * where the next one begins, so the search takes linear time.
 */
const MIXED = /^\P{L}*\p{L}\D*\d\P{L}*\p{L}[^\p{L}\d]*[\p{L}\d]|^\D*\d\P{L}*\p{L}\D*\d/u;
const TIMESTAMP = /^\d{4}-?\d\d-?\d\dT[\d:.]{0,20}(?:Z|[+-]\d\d:?\d\d)?$/;

/** Occurs in text that was encoded twice. Some callers do that with `Södermalm`. */
const ENCODED_BYTE = /%[0-9a-f]{2}/gi;

/** Whether a part of the text, between spaces and commas, mixes letters and digits like a key. */
export function looksLikeCredential(text: string): boolean {
  return text.length >= SHORTEST && text.split(/[\s,]+/).some(isCredential);
}

function isCredential(part: string): boolean {
  if (part.length < SHORTEST || TIMESTAMP.test(part)) return false;
  return MIXED.test(part.replaceAll(ENCODED_BYTE, "-"));
}

/** Words that are not generated secrets: short words with letters only, numbers, dates and coordinates. */
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

/** @returns a random text of the same form. It gets the same response as any other guess of that form. */
function ofSameForm(secret: string, fraction: () => number): string {
  const pick = (characters: string): string => characters.charAt(Math.floor(fraction() * characters.length));
  return secret
    .replaceAll(/[a-z]/g, () => pick("abcdefghijklmnopqrstuvwxyz"))
    .replaceAll(/[A-Z]/g, () => pick("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    .replaceAll(/\d/g, () => pick("0123456789"));
}

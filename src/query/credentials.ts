/**
 * Credentials in requests, recognised by their form alone.
 *
 * Callers send keys and tokens by mistake, and nobody may use the gateway to test a guess of its own secrets. So the
 * parser does not know these secrets: a response depends on the form of a value, never on whether the guess is right.
 * Text that has the form of a credential goes nowhere:
 *
 * | Place                                                       | Result                                  |
 * |-------------------------------------------------------------|-----------------------------------------|
 * | a parameter with the name of a credential                   | the parameter is dropped, with any value |
 * | any other parameter, its name or its value, and a path segment | 400; dropping it could change the answer |
 * | an error in a response                                      | the value is replaced by `[not shown]`  |
 *
 * A secret that has the form of an ordinary word or number is treated like one. Only its echo in an error is hidden.
 */
import { CREDENTIAL_PARAMETERS } from "../interface/parameters.ts";

/** What stands in a response for a value that looks like a credential. */
const NOT_SHOWN = "[not shown]";

const SIGNATURE_NAMES = new Set(CREDENTIAL_PARAMETERS.map((name) => name.toLowerCase()));
/** Without separators and in lower case: `X-Api-Key` is `xapikey`. */
const CREDENTIAL_NAME =
  /^(?:key|token|secret|passw(?:or)?d|pwd|auth|authorization|bearer|credentials?|signature|sig)$|(?:api|private|access|secret|client|admin|auth|app)(?:key|token|secret|password)$/;

/** @returns whether a parameter is a signature's (interface, section 5), or is named like a key, token or password */
export function isCredentialName(name: string): boolean {
  // PHP, which reads these at the other end, ends a name at its bracket or its zero byte.
  const [bare = ""] = name.toLowerCase().split(/[[\0]/, 1);
  return SIGNATURE_NAMES.has(bare.trim()) || CREDENTIAL_NAME.test(bare.replaceAll(/[^a-z]/g, ""));
}

/** Shorter texts are house numbers, ids and typing mistakes. */
const SHORTEST = 8;
/** A digit between letters, or a letter between digits; one letter behind a number is a house: `Storgatan12B`. */
const MIXED = /\p{L}.*\d.*\p{L}.*[\p{L}\d]|\d.*\p{L}.*\d/u;
const TIMESTAMP = /^\d{4}-?\d\d-?\d\dT[\d:.]{0,20}(?:Z|[+-]\d\d:?\d\d)?$/;

/** Of what was encoded twice, as callers do with `Södermalm`. */
const ENCODED_BYTE = /%[0-9a-f]{2}/gi;

/** @returns whether a part of the text, between blanks and commas, mixes letters and digits as keys do */
export function looksLikeCredential(text: string): boolean {
  return text.length >= SHORTEST && text.split(/[\s,]+/).some(isCredential);
}

function isCredential(part: string): boolean {
  if (part.length < SHORTEST || TIMESTAMP.test(part)) return false;
  return MIXED.test(part.replaceAll(ENCODED_BYTE, "-"));
}

/** Words that no generated secret has the form of: of letters alone, and numbers, dates and coordinates. */
const ORDINARY = /^(?:\p{L}{0,20}|[\d.:;+-]*)$/u;

/** @returns the text as an error may show it to the caller that sent it */
export function shownToCaller(text: string): string {
  const words = text.replaceAll(ENCODED_BYTE, "").split(/[\s,]+/);
  const isOrdinary = words.every((word) => word.length < SHORTEST || ORDINARY.test(word));
  return isOrdinary ? text : NOT_SHOWN;
}

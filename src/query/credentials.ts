/**
 * What looks like a credential, judged by its form alone.
 *
 * Callers send keys and tokens by mistake, and nobody may use the gateway to find out whether a guess is one of its
 * own secrets. So nothing here, and nothing in the parser, knows those secrets: a response depends on how a value
 * looks, never on whether it is right. What looks like a credential goes nowhere:
 *
 * | where it stands                        | what happens                                                  |
 * |----------------------------------------|---------------------------------------------------------------|
 * | a parameter with a credential's name   | the parameter is dropped, whatever its value                  |
 * | a value of a documented parameter      | 400, as any bad value                                         |
 * | an undocumented parameter of a resource| the parameter is dropped: nothing is known of its meaning     |
 * | a path that is passed through          | 400: there a dropped parameter (a page cursor) would be a lie |
 * | an error in a response                 | the value is replaced by `[not shown]`                        |
 *
 * A secret that looks like an ordinary word or number cannot be told from one, and is treated like one.
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

/** Shorter ones are house numbers, ids and typing mistakes. */
const SHORTEST = 8;
/** No place and no street has so long a name without a blank in it. */
const LONGEST_WORD = 31;
/** A digit between letters, or a letter between digits; one letter behind a number is a house: `Storgatan12B`. */
const MIXED = /\p{L}.*\d.*\p{L}.*[\p{L}\d]|\d.*\p{L}.*\d/u;
const TIMESTAMP = /^\d{4}-?\d\d-?\d\dT[\d:.]{0,20}(?:Z|[+-]\d\d:?\d\d)?$/;

/** Of what was encoded twice, as callers do with `Södermalm`. */
const ENCODED_BYTE = /%[0-9a-f]{2}/gi;

/**
 * @returns whether a part of the text, between blanks and commas, has letters and digits mixed as keys have
 *   them, or is longer than any word
 */
export function looksLikeCredential(text: string): boolean {
  return text.length >= SHORTEST && text.split(/[\s,]+/).some(isCredential);
}

function isCredential(part: string): boolean {
  if (part.length < SHORTEST || TIMESTAMP.test(part)) return false;
  const plain = part.replaceAll(ENCODED_BYTE, "-");
  return plain.length > LONGEST_WORD || MIXED.test(plain);
}

/** @returns the text as it may be shown to the caller that sent it */
export function shownToCaller(text: string): string {
  return looksLikeCredential(text) ? NOT_SHOWN : text;
}

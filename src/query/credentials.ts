/**
 * Recognises keys and tokens in requests by their form.
 *
 * Callers send credentials by mistake. Others guess the gateway's own secrets and look for a difference in its response.
 * So this file and the parser do not know those secrets: the response depends only on the form of a value. A value that
 * looks like a credential is never forwarded, cached or logged:
 *
 * | where it is                            | what happens                                                  |
 * |----------------------------------------|---------------------------------------------------------------|
 * | a parameter with a credential's name   | the parameter is dropped                                      |
 * | a value of a documented parameter      | 400, like any bad value                                       |
 * | an undocumented parameter of a resource| the parameter is dropped                                      |
 * | a path that is passed through          | 400: dropping a parameter could change the answer             |
 * | an error in a response                 | the value is replaced by `[not shown]`                        |
 *
 * A secret that looks like an ordinary word or number is treated like one.
 */
import { CREDENTIAL_PARAMETERS } from "../interface/parameters.ts";

/** Replaces a value that looks like a credential. */
const NOT_SHOWN = "[not shown]";

const SIGNATURE_NAMES = new Set(CREDENTIAL_PARAMETERS.map((name) => name.toLowerCase()));
/** Matches names in lower case without separators: `X-Api-Key` becomes `xapikey`. */
const CREDENTIAL_NAME =
  /^(?:key|token|secret|passw(?:or)?d|pwd|auth|authorization|bearer|credentials?|signature|sig)$|(?:api|private|access|secret|client|admin|auth|app)(?:key|token|secret|password)$/;

/** Whether a parameter belongs to a signature (interface, section 5), or has the name of a key, token or password. */
export function isCredentialName(name: string): boolean {
  // The upstream runs PHP, which ends a name at a bracket or a zero byte.
  const [bare = ""] = name.toLowerCase().split(/[[\0]/, 1);
  return SIGNATURE_NAMES.has(bare.trim()) || CREDENTIAL_NAME.test(bare.replaceAll(/[^a-z]/g, ""));
}

/** Shorter texts are house numbers, ids and typing mistakes. */
const SHORTEST = 8;
/** No place or street has a longer name without a space. */
const LONGEST_WORD = 31;
/** A digit between letters, or a letter between digits. `Storgatan12B` does not match, because it is a house. */
const MIXED = /\p{L}.*\d.*\p{L}.*[\p{L}\d]|\d.*\p{L}.*\d/u;
const TIMESTAMP = /^\d{4}-?\d\d-?\d\dT[\d:.]{0,20}(?:Z|[+-]\d\d:?\d\d)?$/;

/** In text that was encoded twice, as some callers do with `Södermalm`. */
const ENCODED_BYTE = /%[0-9a-f]{2}/gi;

/**
 * Whether a part of the text, between spaces and commas, mixes letters and digits like a key, or is longer than any word.
 */
export function looksLikeCredential(text: string): boolean {
  return text.length >= SHORTEST && text.split(/[\s,]+/).some(isCredential);
}

function isCredential(part: string): boolean {
  if (part.length < SHORTEST || TIMESTAMP.test(part)) return false;
  const plain = part.replaceAll(ENCODED_BYTE, "-");
  return plain.length > LONGEST_WORD || MIXED.test(plain);
}

/** @returns the text, or `[not shown]` if it looks like a credential */
export function shownToCaller(text: string): string {
  return looksLikeCredential(text) ? NOT_SHOWN : text;
}

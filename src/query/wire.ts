/**
 * Takes a request target apart and puts parameter text together: percent-encoding, and the bends that
 * real callers put into their URLs (RFC 3986, WHATWG `application/x-www-form-urlencoded`).
 */
import type { Pair } from "./query.ts";

/** A request target in two parts, both still percent-encoded. */
export interface Target {
  readonly path: string;
  readonly search: string;
}

/**
 * Splits a request target. The absolute form (RFC 9112, section 3.2.2) loses its scheme and host; an
 * `&` where the `?` should be, as in `/listings/123&format=json`, counts as the `?`.
 */
export function splitTarget(target: string): Target {
  const origin = /^https?:\/\/[^/?]*/i.exec(target)?.[0] ?? "";
  const rest = target.slice(origin.length);
  const end = rest.search(/[?&]/);
  if (end === -1) return { path: rest, search: "" };
  return { path: rest.slice(0, end), search: rest.slice(end + 1) };
}

/**
 * Decodes one name or value; `undefined` where the percent-encoding is broken or is not UTF-8. Half a
 * surrogate pair is no character either, and could not be encoded again.
 */
function decode(text: string): string | undefined {
  if (!text.isWellFormed()) return undefined;
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

/** A query string read: the pairs in the order given, and those whose name or value cannot be decoded. */
export interface WirePairs {
  readonly pairs: readonly Pair[];
  /** With the raw text in place of what cannot be decoded. */
  readonly undecodable: readonly Pair[];
}

/**
 * Reads a query string. Empty parts (`?&`, `&&`) and nameless ones (`=1`) say nothing; names lose the
 * blanks around them, values keep theirs.
 */
export function readPairs(search: string): WirePairs {
  const pairs: Pair[] = [];
  const undecodable: Pair[] = [];
  for (const part of search.replace(/^[?&]+/, "").split("&")) {
    const equals = part.indexOf("=");
    const rawName = equals === -1 ? part : part.slice(0, equals);
    const name = decode(rawName)?.trim();
    const rawValue = equals === -1 ? "" : part.slice(equals + 1);
    const value = decode(rawValue);
    if (name === "") continue;
    if (name === undefined || value === undefined) undecodable.push([name ?? rawName, value ?? rawValue]);
    else pairs.push([name, value]);
  }
  return { pairs, undecodable };
}

/**
 * Encodes a name or value so that it can stand in a URL, in a key and in an HTTP header, and cannot
 * be taken for syntax: everything but letters, digits and `-_.~!(),`. The comma stays readable: it
 * separates items within a value and never parameters. `*` and the like would be patterns to Redis.
 */
export function encode(text: string): string {
  return encodeURIComponent(text).replaceAll("%2C", ",").replaceAll("*", "%2A").replaceAll("'", "%27");
}

/** Writes pairs as a query string without its `?`. */
export function writePairs(pairs: readonly Pair[]): string {
  return pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
}

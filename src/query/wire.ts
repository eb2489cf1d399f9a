/**
 * Splits and decodes request targets, and encodes parameters (RFC 3986, WHATWG `application/x-www-form-urlencoded`). It
 * accepts the irregular URLs that real callers send.
 */
import type { Pair } from "./query.ts";

/**
 * Splits a request target. Scheme and host of the absolute form (RFC 9112, section 3.2.2) are dropped. An `&` in place of
 * the `?`, as in `/listings/123&format=json`, counts as the `?`. Both parts are still percent-encoded.
 */
export function splitTarget(target: string): { path: string; search: string } {
  const origin = /^https?:\/\/[^/?]*/i.exec(target)?.[0] ?? "";
  const rest = target.slice(origin.length);
  const end = rest.search(/[?&]/);
  if (end === -1) return { path: rest, search: "" };
  return { path: rest.slice(0, end), search: rest.slice(end + 1) };
}

/**
 * Percent-decodes a text.
 * @returns `undefined` if the percent-encoding is malformed or not UTF-8, or if the text contains half a surrogate pair,
 *   which could not be encoded again
 */
export function decoded(text: string): string | undefined {
  if (!text.isWellFormed()) return undefined;
  if (!text.includes("%")) return text;
  // An exception costs more than this search.
  if (/%(?![0-9a-f]{2})/i.test(text)) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/**
 * Reads a query string. Empty parts (`?&`, `&&`) and parts without a name (`=1`) are ignored. Names are trimmed, values
 * are not.
 * @returns the parameters in the given order, and those whose name or value cannot be decoded, with the raw text
 */
export function readPairs(search: string): { pairs: readonly Pair[]; undecodable: readonly Pair[] } {
  const pairs: Pair[] = [];
  const undecodable: Pair[] = [];
  for (const part of search.replace(/^[?&]+/, "").split("&")) {
    const equals = part.indexOf("=");
    const rawName = equals === -1 ? part : part.slice(0, equals);
    const name = decoded(rawName.replaceAll("+", " "))?.trim();
    const rawValue = equals === -1 ? "" : part.slice(equals + 1);
    const value = decoded(rawValue.replaceAll("+", " "));
    if (name === "") continue;
    if (name === undefined || value === undefined) undecodable.push([name ?? rawName, value ?? rawValue]);
    else pairs.push([name, value]);
  }
  return { pairs, undecodable };
}

/**
 * Percent-encodes everything except letters, digits and `-_.~!(),`. The result is safe in a URL, in a cache key and in an
 * HTTP header. The comma stays readable, because it separates items within a value. `*` is encoded, because it is a pattern
 * in Redis.
 */
export function encode(text: string): string {
  return encodeURIComponent(text).replaceAll("%2C", ",").replaceAll("*", "%2A").replaceAll("'", "%27");
}

/** Writes pairs as a query string without its `?`. */
export function writePairs(pairs: readonly Pair[]): string {
  return pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
}

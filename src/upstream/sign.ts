/**
 * How the gateway identifies itself to the upstream: with headers in each request, and with a signature (interface, section 5).
 */
import { hash } from "node:crypto";

import { mediaTypeOf, type Format } from "../interface/media-types.ts";

/**
 * The request headers of every upstream call (terms of use, interface section 1). `Referrer` is the interface's spelling,
 * `Referer` is the standard's (RFC 9110, section 10.1.3).
 */
export function outgoingHeaders(
  format: Format,
  identity: { readonly service: string; readonly userAgent: string; readonly referrer: string },
): Record<string, string> {
  return {
    accept: mediaTypeOf(format, identity.service),
    "user-agent": identity.userAgent,
    referer: identity.referrer,
    referrer: identity.referrer,
  };
}

/**
 * Adds a signature to a path with or without a query. `signature`: the values that prove who signed, `unique` and `hash`. Nobody
 * but the upstream may see them.
 */
export type Sign = (target: string) => { readonly target: string; readonly signature: readonly string[] };

/** For an address without authentication. */
export const unsigned: Sign = (target) => ({ target, signature: [] });

/**
 * Signs with `callerId`, `time` in seconds, `unique`, and `hash`: the SHA-1 of callerId, time, private key and unique in
 * this order, as 40 hexadecimal characters.
 *
 * Call it immediately before sending, because the upstream may refuse an old `time`.
 * @param privateKey called for each signature, because the key may change
 * @param now epoch milliseconds
 * @param unique16 returns 16 new random characters
 */
export function createSigner(
  callerId: string,
  privateKey: () => string,
  now: () => number,
  unique16: () => string,
): Sign {
  const caller = new URLSearchParams({ callerId }).toString();
  return (target) => {
    const time = String(Math.floor(now() / 1000));
    const unique = unique16();
    const signature = hash("sha1", callerId + time + privateKey() + unique);
    const separator = target.includes("?") ? "&" : "?";
    return {
      target: `${target}${separator}${caller}&time=${time}&unique=${unique}&hash=${signature}`,
      signature: [unique, signature],
    };
  };
}

/**
 * Signs requests (interface, section 5).
 */
import { hash } from "node:crypto";

export interface SignerOptions {
  readonly callerId: string;
  /** Called for each signature, because the key may change. */
  readonly privateKey: () => string;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** @returns 16 new random characters */
  readonly unique16: () => string;
}

/** A path and query as they are sent. */
interface Signed {
  readonly target: string;
  /** The values that prove who signed, `unique` and `hash`. Nobody but the upstream may see them. */
  readonly signature: readonly string[];
}

/** Adds a signature to a path with or without a query. */
export type Sign = (target: string) => Signed;

/** For an address without authentication. */
export const unsigned: Sign = (target) => ({ target, signature: [] });

/**
 * Signs with `callerId`, `time` in seconds, `unique`, and `hash`: the SHA-1 of callerId, time, private key and unique in
 * this order, as 40 hexadecimal characters.
 *
 * Call it immediately before sending, because the upstream may refuse an old `time`.
 */
export function createSigner({ callerId, privateKey, now, unique16 }: SignerOptions): Sign {
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

import { createHash } from "node:crypto";

export interface SignerOptions {
  readonly callerId: string;
  /** Called for each signature, so that the key is held in one place and may change. */
  readonly privateKey: () => string;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** 16 fresh random characters. */
  readonly unique16: () => string;
}

/** From a path with or without a query to the same with a signature. */
export type Sign = (target: string) => string;

/**
 * Signs as the interface says (section 5): `callerId`, `time` in seconds, `unique`, and `hash`, the
 * SHA-1 of callerId, time, private key and unique in this order, in 40 hexadecimal characters.
 *
 * To be called at the moment of sending: what is signed before a wait is stale after it.
 */
export function createSigner({ callerId, privateKey, now, unique16 }: SignerOptions): Sign {
  return (target) => {
    const time = String(Math.floor(now() / 1000));
    const unique = unique16();
    const hash = createHash("sha1")
      .update(callerId + time + privateKey() + unique)
      .digest("hex");
    const signature = new URLSearchParams({ callerId, time, unique, hash });
    return `${target}${target.includes("?") ? "&" : "?"}${signature.toString()}`;
  };
}

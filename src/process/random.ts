import { randomBytes, randomUUID } from "node:crypto";

/** Randomness is passed in as an argument: the system's source, or a fixed one in tests. */
export interface Random {
  /** 16 letters and digits with 95 random bits, for the `unique` of a signed request (interface, section 5). */
  readonly unique16: () => string;
  /** A new request id. */
  readonly requestId: () => string;
  /** At least 0 and less than 1. */
  readonly fraction: () => number;
}

const ALPHANUMERIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LENGTH = 16;

/** @returns a function that returns a new `unique`. A call of `randomBytes` takes 12 µs, so it gets bytes for 256 at once. */
function createUnique16(): () => string {
  let bytes = Buffer.alloc(0);
  let used = 0;
  return () => {
    if (used === bytes.length) [bytes, used] = [randomBytes(LENGTH * 256), 0];
    let unique = "";
    for (const byte of bytes.subarray(used, used + LENGTH))
      unique += ALPHANUMERIC[byte % ALPHANUMERIC.length];
    used += LENGTH;
    return unique;
  };
}

export const systemRandom: Random = {
  unique16: createUnique16(),
  requestId: () => randomUUID(),
  fraction: () => Math.random(),
};

import { randomBytes, randomUUID } from "node:crypto";

/** Randomness is passed in as an argument: the system's source, or a fixed one in tests. */
export interface Random {
  /** 16 characters of `A-Z a-z 0-9 - _` with 96 random bits, for the `unique` of a signed request (interface, section 5). */
  readonly unique16: () => string;
  /** A new request id. */
  readonly requestId: () => string;
  /** At least 0 and less than 1. */
  readonly fraction: () => number;
}

const UNIQUE_BYTES = 12;

/** @returns a function that returns a new `unique`. A call of `randomBytes` takes 12 µs, so it gets bytes for 256 at once. */
function createUnique16(): () => string {
  let bytes = Buffer.alloc(0);
  let used = 0;
  return () => {
    if (used === bytes.length) [bytes, used] = [randomBytes(UNIQUE_BYTES * 256), 0];
    used += UNIQUE_BYTES;
    return bytes.toString("base64url", used - UNIQUE_BYTES, used);
  };
}

export const systemRandom: Random = {
  unique16: createUnique16(),
  requestId: () => randomUUID(),
  fraction: () => Math.random(),
};

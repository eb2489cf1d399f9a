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

export const systemRandom: Random = {
  unique16: () => Array.from(randomBytes(16), (byte) => ALPHANUMERIC[byte % ALPHANUMERIC.length]).join(""),
  requestId: () => randomUUID(),
  fraction: () => Math.random(),
};

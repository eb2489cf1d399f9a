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

export const systemRandom: Random = {
  unique16: () => randomBytes(12).toString("base64url"),
  requestId: () => randomUUID(),
  fraction: () => Math.random(),
};

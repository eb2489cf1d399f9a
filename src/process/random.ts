import { randomBytes, randomUUID } from "node:crypto";

/** Randomness as an argument: the process' own cryptographic source, or a test's. */
export interface Random {
  /** 16 characters of `A-Z a-z 0-9 - _`, 96 bits: the `unique` of a signed request (interface, section 5). */
  readonly unique16: () => string;
  /** A new request id. */
  readonly requestId: () => string;
  /** From 0 up to, not including, 1. */
  readonly fraction: () => number;
}

export const systemRandom: Random = {
  unique16: () => randomBytes(12).toString("base64url"),
  requestId: () => randomUUID(),
  fraction: () => Math.random(),
};

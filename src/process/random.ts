import { randomBytes } from "node:crypto";

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

/** Request ids of this process begin with it. Random bytes for each id would take half a microsecond of each hit. */
const ofProcess = randomBytes(9).toString("base64url");
let requests = 0;

export const systemRandom: Random = {
  unique16: () => Array.from(randomBytes(16), (byte) => ALPHANUMERIC[byte % ALPHANUMERIC.length]).join(""),
  requestId: () => `${ofProcess}.${++requests}`,
  fraction: () => Math.random(),
};

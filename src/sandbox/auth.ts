/**
 * Checks the four authentication parameters to the letter (interface, section 5).
 */
import { createHash } from "node:crypto";

export interface Caller {
  readonly callerId: string;
  readonly privateKey: string;
}

export type Authenticator = ReturnType<typeof createAuthenticator>;

const UNIQUE_LENGTH = 16;

/** The most uniques that are remembered. The oldest is forgotten first, when its time is long outside the window. */
const REMEMBERED_UNIQUES = 500_000;

const REQUIRED = ["callerId", "time", "unique", "hash"] as const;

/** SHA-1 of callerId, time, private key and unique, as 40 hexadecimal characters. */
export function signatureOf(caller: Caller, time: string, unique: string): string {
  return createHash("sha1").update(`${caller.callerId}${time}${caller.privateKey}${unique}`).digest("hex");
}

/** PHP keeps the last of a repeated name. */
function last(params: URLSearchParams, name: string): string {
  return params.getAll(name).at(-1) ?? "";
}

/** How far a request's `time` may be from the sandbox's clock, either way. */
const WINDOW_SECONDS = 300;

function withinWindow(time: string, nowSeconds: number): boolean {
  return /^\d{1,12}$/.test(time) && Math.abs(Number(time) - nowSeconds) <= WINDOW_SECONDS;
}

// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createAuthenticator(original: Caller) {
  let caller = original;
  const used = new Set<string>();

  return {
    /**
     * @param params the request's query
     * @param nowSeconds the sandbox's clock
     * @returns why the request is refused, as a text for the caller; `undefined` if it is genuine
     */
    refusal: (params: URLSearchParams, nowSeconds: number): string | undefined => {
      const missing = REQUIRED.find((name) => last(params, name) === "");
      if (missing) return `FAILURE_MISSING_PARAM - ${missing} is missing`;
      const [time, unique] = [last(params, "time"), last(params, "unique")];
      if (last(params, "callerId") !== caller.callerId)
        return "FAILURE_UNKNOWN_CALLER - callerId is not known";
      if (!withinWindow(time, nowSeconds)) {
        return "FAILURE_INVALID_TIME - time must be the current UNIX timestamp in seconds";
      }
      if (unique.length !== UNIQUE_LENGTH) {
        return `FAILURE_INVALID_UNIQUE - unique must be ${UNIQUE_LENGTH} characters`;
      }
      if (last(params, "hash").toLowerCase() !== signatureOf(caller, time, unique)) {
        return "FAILURE_INVALID_HASH - hash does not match";
      }
      if (used.has(unique)) return "FAILURE_UNIQUE_USED - unique has been used before";
      // Only a genuine request uses up its unique, so that a forged one cannot.
      used.add(unique);
      if (used.size > REMEMBERED_UNIQUES) used.delete(used.values().next().value ?? "");
      return undefined;
    },
    /** Changes the key or the callerId. Requests signed with the old one fail from now on. */
    setCaller: (change: Partial<Caller>): void => void (caller = { ...caller, ...change }),
    /** Restores the first caller, and forgets every `unique`. */
    reset: (): void => {
      caller = original;
      used.clear();
    },
    get callerId(): string {
      return caller.callerId;
    },
  };
}

/** The problem that a caller gets when its call cannot be sent in time. Pure. */
import { Problem } from "../errors.ts";
import type { RefusalReason } from "../telemetry/events.ts";
import type { CircuitCause } from "./circuits/failures.ts";

/** How long a call would wait, and for what. */
export interface Expectation {
  readonly forMs: number;
  /** If more calls go before it than is likely. By default the same time. */
  readonly atMostMs?: number;
  readonly why: Exclude<RefusalReason, "deadline">;
  /** What opened the circuit, if `why` is `cool-off`. */
  readonly cause?: CircuitCause | undefined;
  /** False: the call is refused immediately. */
  readonly mayWait?: boolean;
}

/** Longest `Retry-After`. */
const LONGEST_SECONDS = 86_400;
/** `Retry-After` is longer by up to this part, so that callers do not all come back at once. */
const JITTER = 0.1;

const CODES = {
  share: "quota-exceeded",
  "per-day": "quota-exceeded",
  budget: "temporary-reduced-capacity",
  "redis-away": "budget-unavailable",
  "cool-off": "upstream-unavailable",
} as const;

const PER_DAY = "This app has spent its calls to the property service for any 24 hours (perDay).";
const IN_FLIGHT = "The call did not leave the queue in time. Nothing was sent to the property service.";

/**
 * If only the calls in flight hold a call back (`forMs` is 0), the caller's deadline has passed in the queue, or soon will.
 * @param app whose share or `perDay` may be used up
 * @param fraction from 0 up to 1: jitter
 */
export function refusalOf({ forMs, why, cause }: Expectation, app: string, fraction: number): Problem {
  const code = cause === "credentials" ? "upstream-authentication-failed" : CODES[why];
  // The upstream named this time, or the next probe is due then.
  const jitter = why === "cool-off" ? 0 : JITTER * fraction;
  const isDue = forMs <= 0;
  const detail = isDue ? IN_FLIGHT : why === "per-day" ? PER_DAY : undefined;
  return new Problem(code, {
    ...(detail !== undefined && { detail }),
    ...(code === "quota-exceeded" && { ofApp: app }),
    retryAfterSeconds: retryAfterSeconds(forMs * (1 + jitter)),
    refusedHere: true,
    internal: `no permit before the deadline: ${isDue ? "too many calls in flight" : (cause ?? why)}`,
  });
}

/** Rounded up, so that a caller that waits this long is not early. */
export function retryAfterSeconds(forMs: number): number {
  return Math.min(LONGEST_SECONDS, Math.max(1, Math.ceil(forMs / 1000)));
}

/** The problem that a caller gets when its call cannot be sent in time. Pure. */
import { Problem } from "../errors.ts";
import type { RefusalReason } from "../telemetry/events.ts";
import type { CircuitCause } from "./circuits/opening.ts";

/** How long a call would wait, and for what. */
export interface Expectation {
  readonly forMs: number;
  readonly why: Exclude<RefusalReason, "deadline">;
  /** What opened the circuit, if `why` is `cool-off`. */
  readonly cause?: CircuitCause | undefined;
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

/** @param app whose share or `perDay` may be used up @param fraction from 0 up to 1: jitter */
export function refusalOf({ forMs, why, cause }: Expectation, app: string, fraction: number): Problem {
  const code = cause === "credentials" ? "upstream-authentication-failed" : CODES[why];
  // The upstream named this time, or the next probe is due then.
  const jitter = why === "cool-off" ? 0 : JITTER * fraction;
  return new Problem(code, {
    ...(why === "per-day" && {
      detail: "This app has used up its requests to the property service for any 24 hours.",
    }),
    ...(code === "quota-exceeded" && { ofApp: app }),
    retryAfterSeconds: retryAfterSeconds(forMs * (1 + jitter)),
    refusedHere: true,
    internal: `no permit before the deadline: ${cause ?? why}`,
  });
}

/** The problem of a call whose deadline passes in the queue: the reason why it waits, or too many calls in flight. */
export function lateRefusalOf(expectation: Expectation, app: string, fraction: number): Problem {
  const { code, details } = refusalOf(expectation, app, fraction);
  if (expectation.forMs > 0) return new Problem(code, { ...details, late: true });
  return new Problem("temporary-reduced-capacity", {
    detail:
      "The call was still in the queue at the request's deadline. Nothing was sent to the property service.",
    retryAfterSeconds: 1,
    refusedHere: true,
    late: true,
    internal: "no permit before the deadline: too many calls in flight",
  });
}

/** Rounded up, so that a caller that waits this long is not early. */
export function retryAfterSeconds(forMs: number): number {
  return Math.min(LONGEST_SECONDS, Math.max(1, Math.ceil(forMs / 1000)));
}

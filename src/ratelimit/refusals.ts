/** The problem that a caller gets when its call cannot be sent in time. Pure. */
import { Problem } from "../errors.ts";
import type { RefusalReason } from "../telemetry/events.ts";
import type { CircuitCause } from "./circuits/opening.ts";

/** How long a call would wait, and for what. */
export interface Expectation {
  readonly forMs: number;
  readonly why: Exclude<RefusalReason, "deadline">;
  /** The app has used up its share while other apps are active. */
  readonly isOverShare: boolean;
  /** What opened the circuit, if `why` is `cool-off`. */
  readonly cause?: CircuitCause | undefined;
}

export interface Refusal {
  readonly reason: Expectation["why"];
  readonly problem: Problem;
}

/** Longest `Retry-After`. */
const LONGEST_SECONDS = 86_400;
/** `Retry-After` is longer by up to this part, so that callers do not all come back at once. */
const JITTER = 0.1;

/**
 * | Why                                        | Problem                                                     |
 * |--------------------------------------------|-------------------------------------------------------------|
 * | the app's share, or its calls for a day    | 429 `quota-exceeded`                                        |
 * | the budget of all apps                     | 503 `temporary-reduced-capacity`                            |
 * | Redis does not answer, and the own purse is spent | 503 `budget-unavailable`                       |
 * | the upstream fails, or asked for a pause   | 503 `upstream-unavailable`                                  |
 * | the upstream refuses our credentials       | 502 `upstream-authentication-failed`                        |
 *
 * @param fraction from 0 up to 1: jitter
 */
export function refusalOf(
  { forMs, why, isOverShare, cause }: Expectation,
  app: string,
  fraction: number,
): Refusal {
  const reason = why === "budget" && isOverShare ? "share" : why;
  // The upstream named this time, or the next probe is due then.
  const jitter = reason === "cool-off" ? 0 : JITTER * fraction;
  const details = {
    retryAfterSeconds: retryAfterSeconds(forMs * (1 + jitter)),
    refusedHere: true,
    internal: `no permit before the deadline: ${cause ?? reason}`,
  };
  switch (reason) {
    case "share":
      return { reason, problem: new Problem("quota-exceeded", { ...details, ofApp: app }) };
    case "per-day": {
      const detail = "This app has used up its requests to the property service for any 24 hours.";
      return { reason, problem: new Problem("quota-exceeded", { ...details, detail, ofApp: app }) };
    }
    case "cool-off": {
      const code = cause === "credentials" ? "upstream-authentication-failed" : "upstream-unavailable";
      return { reason, problem: new Problem(code, details) };
    }
    case "redis-away":
      return { reason, problem: new Problem("budget-unavailable", details) };
    case "budget":
      return { reason, problem: new Problem("temporary-reduced-capacity", details) };
  }
}

/** The problem of a call whose deadline passes in the queue: the reason why it waits, or too many calls in flight. */
export function lateRefusalOf(expectation: Expectation, app: string, fraction: number): Problem {
  const { problem } = refusalOf(expectation, app, fraction);
  if (expectation.forMs > 0) return new Problem(problem.code, { ...problem.details, late: true });
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

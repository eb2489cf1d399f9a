/** What a caller is told where its request cannot be sent in time. Pure. */
import { Problem } from "../errors.ts";
import type { Expectation } from "./allowance.ts";

/** Why a request was refused; a closed set, as it labels a metric. */
export type RefusalReason = "budget" | "share" | "per-day" | "cool-off";

export interface Refusal {
  readonly reason: RefusalReason;
  readonly problem: Problem;
}

/** The longest that a caller is told to wait, in seconds: by then much may have changed. */
const LONGEST_SECONDS = 86_400;

/**
 * `quota-exceeded` (429) where the app's own share, or its limit for a day, is what it has used up;
 * `upstream-unavailable` where the upstream asked to be left alone; else `temporary-reduced-capacity`.
 */
export function refusalOf({ forMs, why, isOverShare }: Expectation, app: string): Refusal {
  // A place comes free a moment after its window has passed.
  const retryAfterSeconds = Math.min(LONGEST_SECONDS, Math.max(1, Math.ceil((forMs - 1) / 1000)));
  const reason = why === "budget" && isOverShare ? "share" : why;
  const details = {
    retryAfterSeconds,
    refusedHere: true,
    internal: `no turn before the deadline: ${reason}`,
  };
  switch (reason) {
    case "share":
      return { reason, problem: new Problem("quota-exceeded", { ...details, ofApp: app }) };
    case "per-day": {
      const detail = "This app has used up its requests to the property service for any 24 hours.";
      return { reason, problem: new Problem("quota-exceeded", { ...details, detail, ofApp: app }) };
    }
    case "cool-off":
      return { reason, problem: new Problem("upstream-unavailable", details) };
    case "budget":
      return { reason, problem: new Problem("temporary-reduced-capacity", details) };
  }
}

/**
 * What one is told who has waited for a turn until its deadline: what keeps it from going, as at once. Where nothing
 * does, there are as many calls on their way as may be.
 */
export function lateRefusalOf(expectation: Expectation, app: string): Problem {
  const { problem } = refusalOf(expectation, app);
  if (expectation.forMs > 0) return new Problem(problem.code, { ...problem.details, late: true });
  return new Problem("temporary-reduced-capacity", {
    detail:
      "The turn of this request had not come by its deadline; nothing was sent to the property service.",
    retryAfterSeconds: 1,
    refusedHere: true,
    late: true,
    internal: "no turn before the deadline: calls at once",
  });
}

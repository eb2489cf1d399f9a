/**
 * Refreshing what is cached while nobody waits for it: below callers' own requests in the queue, and never in
 * the reserve. What has no place soon is left for later.
 */
import { Problem } from "../errors.ts";
import type { Entry, Observer, Priority, Question, RefreshEnd } from "../types.ts";
import type { Clock } from "../process/clock.ts";
import type { Failures } from "./failures.ts";
import type { Load } from "./load.ts";
import { wasRefusedHere } from "./policy.ts";

/** Why it is refreshed: it was asked for, or is to be kept warm. */
type RefreshCause = "refresh" | "warm";

/** Never rejects. */
export type Refresh = (
  question: Question,
  cached: Entry | undefined,
  cause: RefreshCause,
) => Promise<RefreshEnd>;

export interface RefreshOptions {
  readonly load: Load;
  readonly failures: Pick<Failures, "recent">;
  /** The longest that a call takes once it was sent, retries included. */
  readonly totalTimeoutMs: number;
  readonly clock: Clock;
  readonly observer: Pick<Observer, "error">;
}

const PRIORITIES: Record<RefreshCause, Priority> = { refresh: "refresh", warm: "prefetch" };

/** How long a refresh waits for a place. Meanwhile it holds the flight that a caller may need. */
const PATIENCE_MS = 2_000;
/** What was sent is waited for; this much longer than it may take, for what is done with what came. */
const REST_MS = 1_000;
/** Where there was none for an app, its next one is tried after so long. */
const HOLD_OFF_MS = 1_000;

export function createRefresh(options: RefreshOptions): Refresh {
  const { load, failures, totalTimeoutMs, clock, observer } = options;
  const underWay = new Set<string>();
  /** Until when, by the steady clock, there is no place for an app's refreshes, for each kind of refresh and origin. */
  const holdOff = new Map<string, number>();
  // Nobody hangs up.
  const gone = new AbortController().signal;

  async function fly(
    question: Question,
    cached: Entry | undefined,
    cause: RefreshCause,
  ): Promise<RefreshEnd> {
    const { app } = question.request;
    const place = `${cause} ${question.query.resource === "images" ? "images" : "api"} ${app}`;
    // Nobody waits: what failed a moment ago, here or in another replica, is left alone until its next try.
    if (failures.recent(question.key, clock.steady()) !== undefined) return "failed";
    if (clock.steady() < (holdOff.get(place) ?? 0)) return "refused";
    try {
      const placeBy = clock.now() + PATIENCE_MS;
      const deadlineAt = placeBy + totalTimeoutMs + REST_MS;
      const waiter = { app, placeBy, deadlineAt, gone, priority: PRIORITIES[cause] };
      await load({ question, cached, cause, waiter });
      return "refreshed";
    } catch (error) {
      if (!(error instanceof Problem)) {
        observer.error("A refresh ended in an unexpected error; this is a mistake of the gateway.", {
          text: question.text,
          err: error,
        });
        return "failed";
      }
      if (!wasRefusedHere(error)) return "failed";
      holdOff.set(place, clock.steady() + HOLD_OFF_MS);
      return "refused";
    }
  }

  return async function refresh(question, cached, cause) {
    const { key } = question;
    if (underWay.has(key)) return "skipped";
    underWay.add(key);
    try {
      return await fly(question, cached, cause);
    } finally {
      underWay.delete(key);
    }
  };
}

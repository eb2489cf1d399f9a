/**
 * Refreshes cached answers in the background. Refreshes queue behind callers' requests and never use the reserve of
 * the budget. A refresh that gets no permit soon is given up.
 */
import { LRUCache } from "lru-cache";

import { Problem, wasRefusedHere } from "../errors.ts";
import type { Context } from "../context.ts";
import type { Entry } from "./entry.ts";
import type { RefreshEnd } from "../telemetry/events.ts";
import type { Question } from "../query/request.ts";
import type { Failures } from "./recent-failures.ts";
import type { Load } from "./load.ts";

export type Refresh = ReturnType<typeof createRefresh>;

export interface RefreshOptions extends Pick<Context, "clock" | "observer"> {
  readonly load: Load;
  readonly failures: Pick<Failures, "recent">;
}

/** `refresh`: a request found the answer stale or about to expire. `warm`: the answer is on the warm list. */
const PRIORITIES = { refresh: "refresh", warm: "prefetch" } as const;

/** The longest time that a refresh is queued. Meanwhile it occupies the flight that a caller may need. */
const QUEUE_DEADLINE_MS = 2_000;
/**
 * After a refresh for an app was refused, the app's other refreshes of the same resource are not tried during this time. Those of
 * other resources are, because an open circuit may stop only one resource.
 */
const HOLD_OFF_MS = 1_000;
/** Callers can invent the ids of apps. */
const MOST_HELD_OFF = 1_000;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createRefresh({ load, failures, clock, observer }: RefreshOptions) {
  const inFlight = new Set<string>();
  /** By cause, resource and app: when a refresh is tried again after one got no permit. Monotonic. */
  const heldOffUntil = new LRUCache<string, number>({ max: MOST_HELD_OFF });
  // No caller can hang up.
  const gone = new AbortController().signal;

  /** Never rejects. */
  return async function refresh(
    question: Question,
    cached: Entry | undefined,
    cause: keyof typeof PRIORITIES,
  ): Promise<RefreshEnd> {
    const { key, query, request } = question;
    const { app } = request;
    const group = `${cause} ${query.resource} ${app}`;
    const now = clock.monotonic();
    if (inFlight.has(key)) return "skipped";
    // It failed a moment ago, here or in another replica. No caller waits, so it can wait for its next try.
    if (failures.recent(key, now) !== undefined) return "failed";
    if (now < (heldOffUntil.get(group) ?? 0)) return "refused";
    inFlight.add(key);
    try {
      const deadlineAt = clock.now() + QUEUE_DEADLINE_MS;
      const waiter = { app, deadlineAt, isPatient: true, gone, priority: PRIORITIES[cause] };
      await load({ question, cached, cause, waiter });
      return "refreshed";
    } catch (error) {
      if (!(error instanceof Problem)) {
        observer.error("A refresh ended in an unexpected error. This is a bug in the gateway.", {
          query: question.canonicalQuery,
          err: error,
        });
        return "failed";
      }
      if (!wasRefusedHere(error)) return "failed";
      heldOffUntil.set(group, clock.monotonic() + HOLD_OFF_MS);
      return "refused";
    } finally {
      inFlight.delete(key);
    }
  };
}

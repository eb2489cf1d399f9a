import { Problem } from "../errors.ts";
import type { Answer, Question } from "../exchange.ts";
import { createFailures } from "./failures.ts";
import { mayServeStale, type StaleBounds, wasRefusedHere } from "./policy.ts";
import type { Found, Tiers } from "./tiers.ts";

export interface StandInOptions {
  readonly tiers: Pick<Tiers, "judge">;
  readonly bounds: StaleBounds;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/**
 * Fetches a new answer, or gives the one that was found and has expired in its place, where it may be.
 * Rejects with what the fetch rejects with.
 */
export type StandIn = (question: Question, found: Found, fetch: () => Promise<Answer>) => Promise<Answer>;

/** @returns a function that remembers what failed, and does not try that again at once */
export function createStandIn({ tiers, bounds, now }: StandInOptions): StandIn {
  const failures = createFailures();

  function insteadOf(error: unknown, { key, query }: Question, before: Found): Answer | undefined {
    if (!(error instanceof Problem)) return undefined;
    // It may have been purged while its caller waited.
    const found = tiers.judge(key, before);
    if (found === undefined || !mayServeStale(found.entry, query, error, now(), bounds)) return undefined;
    const { entry, tier } = found;
    return { entry, tier, stored: true, outcome: "stale", insteadOf: error.code };
  }

  return async function standIn(question, found, fetch) {
    const { key } = question;
    const failed = failures.standing(key, now());
    const withoutTrying = failed && insteadOf(failed, question, found);
    if (withoutTrying !== undefined) return withoutTrying;
    try {
      const answer = await fetch();
      failures.succeeded(key);
      return answer;
    } catch (error) {
      const stale = insteadOf(error, question, found);
      if (stale === undefined) throw error;
      // What was refused here cost the upstream nothing: it may be tried at any time.
      if (error instanceof Problem && !wasRefusedHere(error)) failures.failed(key, error, now());
      return stale;
    }
  };
}

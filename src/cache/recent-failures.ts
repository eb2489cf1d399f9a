/**
 * Keys whose fetch failed a moment ago. Until the next try, callers get their cached answers, so a failing upstream
 * gets fewer calls, not more. Instants are monotonic, so that setting the time of day back does not delay the next
 * try.
 */
import { LRUCache } from "lru-cache";

import type { Problem } from "../errors.ts";

export interface Failures {
  /** Whether the latest fetch of any key failed. */
  readonly isAny: () => boolean;
  /** The failure of a key, if it is too early for the next try. */
  readonly recent: (key: string, now: number) => Problem | undefined;
  /** The failure of the latest fetch of a key. */
  readonly latest: (key: string) => Problem | undefined;
  /** A flight failed, here or in another replica. The same failure reported twice counts once. */
  readonly failed: (key: string, problem: Problem, now: number) => void;
  /** A flight takes so long that no other caller should wait for it. */
  readonly tooSlow: (key: string, problem: Problem, now: number) => void;
  readonly succeeded: (key: string) => void;
}

/** The pause before the next try; it doubles with each failure. */
const FIRST_MS = 5_000;
const LONGEST_MS = 60_000;
/** Beyond this many keys, the oldest failures are forgotten, and their keys are tried again sooner. */
const MOST_KEYS = 10_000;

interface Failure {
  readonly problem: Problem;
  /** The pause before the next try; 0 if nothing has failed yet. */
  readonly waitMs: number;
  readonly nextTryAt: number;
  readonly failedAt: number;
}

/** A report within this time is about the same failure. */
const SAME_WITHIN_MS = 1_000;

export function createFailures(): Failures {
  const failures = new LRUCache<string, Failure>({ max: MOST_KEYS });

  return {
    isAny: () => failures.size > 0,
    recent(key, now) {
      const failure = failures.peek(key);
      return failure !== undefined && now < failure.nextTryAt ? failure.problem : undefined;
    },
    latest: (key) => failures.peek(key)?.problem,
    failed(key, problem, now) {
      const { waitMs: before = 0, failedAt = Number.NEGATIVE_INFINITY } = failures.get(key) ?? {};
      if (before > 0 && now - failedAt < SAME_WITHIN_MS) return;
      const waitMs = Math.min(Math.max(FIRST_MS, before * 2), LONGEST_MS);
      failures.set(key, { problem, waitMs, nextTryAt: now + waitMs, failedAt: now });
    },
    tooSlow(key, problem, now) {
      const { waitMs = 0, failedAt = Number.NEGATIVE_INFINITY } = failures.get(key) ?? {};
      failures.set(key, { problem, waitMs, nextTryAt: now + FIRST_MS, failedAt });
    },
    succeeded: (key) => void failures.delete(key),
  };
}

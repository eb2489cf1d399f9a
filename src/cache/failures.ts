/**
 * Keys whose fetch failed a moment ago: until their next try they are answered from what is held, so that a
 * sick upstream is asked less, never more. Instants are those of the steady clock: a time of day that is set back
 * must not put off the next try.
 */
import type { Problem } from "../errors.ts";

export interface Failures {
  /** The failure that still stands, so that it is not tried again yet. */
  readonly recent: (key: string, now: number) => Problem | undefined;
  /** A flight ended so, here or in another replica; told of both ways it counts once. */
  readonly failed: (key: string, problem: Problem, now: number) => void;
  /** A flight takes so long that nobody else is to wait for it. */
  readonly tooSlow: (key: string, problem: Problem, now: number) => void;
  readonly succeeded: (key: string) => void;
}

/** A key is tried again after so long, then twice as long each time. */
const FIRST_MS = 5_000;
const LONGEST_MS = 60_000;
/** More keys than this are not remembered: the oldest are forgotten, and tried again sooner. */
const MOST_KEYS = 10_000;

interface Failure {
  readonly problem: Problem;
  /** Before the next try; 0 where nothing has failed yet. */
  readonly waitMs: number;
  readonly nextTryAt: number;
  readonly failedAt: number;
}

/** What is told of again within this time is the same failure. */
const SAME_WITHIN_MS = 1_000;

export function createFailures(): Failures {
  /** In the order in which they failed. */
  const failures = new Map<string, Failure>();

  function note(key: string, failure: Failure): void {
    failures.delete(key);
    failures.set(key, failure);
    if (failures.size > MOST_KEYS) failures.delete(failures.keys().next().value ?? "");
  }

  return {
    recent(key, now) {
      const failure = failures.get(key);
      return failure !== undefined && now < failure.nextTryAt ? failure.problem : undefined;
    },
    failed(key, problem, now) {
      const { waitMs: before = 0, failedAt = Number.NEGATIVE_INFINITY } = failures.get(key) ?? {};
      if (before > 0 && now - failedAt < SAME_WITHIN_MS) return;
      const waitMs = Math.min(Math.max(FIRST_MS, before * 2), LONGEST_MS);
      note(key, { problem, waitMs, nextTryAt: now + waitMs, failedAt: now });
    },
    tooSlow(key, problem, now) {
      const { waitMs = 0, failedAt = Number.NEGATIVE_INFINITY } = failures.get(key) ?? {};
      note(key, { problem, waitMs, nextTryAt: now + FIRST_MS, failedAt });
    },
    succeeded: (key) => void failures.delete(key),
  };
}

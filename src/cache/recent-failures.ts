/**
 * Keys whose fetch failed a moment ago. Until the next try, callers get their cached answers, so a failing upstream
 * gets fewer calls, not more. Instants are monotonic, so that setting the time of day back does not delay the next
 * try.
 */
import { LRUCache } from "lru-cache";

import type { Problem } from "../errors.ts";

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
}

export class Failures {
  readonly #failures = new LRUCache<string, Failure>({ max: MOST_KEYS });

  /** The failure of a key, if it is too early for the next try. */
  recent(key: string, now: number): Problem | undefined {
    const failure = this.#failures.peek(key);
    return failure !== undefined && now < failure.nextTryAt ? failure.problem : undefined;
  }

  /** The failure of the latest fetch of a key. */
  latest(key: string): Problem | undefined {
    return this.#failures.peek(key)?.problem;
  }

  /** A flight failed, here or in another replica. */
  failed(key: string, problem: Problem, now: number): void {
    const waitMs = Math.min(Math.max(FIRST_MS, this.#waitMs(key) * 2), LONGEST_MS);
    this.#failures.set(key, { problem, waitMs, nextTryAt: now + waitMs });
  }

  /** A flight takes so long that no other caller should wait for it. */
  tooSlow(key: string, problem: Problem, now: number): void {
    this.#failures.set(key, { problem, waitMs: this.#waitMs(key), nextTryAt: now + FIRST_MS });
  }

  #waitMs(key: string): number {
    return this.#failures.get(key)?.waitMs ?? 0;
  }

  succeeded(key: string): void {
    this.#failures.delete(key);
  }
}

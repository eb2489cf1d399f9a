/** A process of changes: the data behind each path changes at random instants, at a rate of its own. */
import { type Random, seededRandom } from "./random.ts";
import type { Revised } from "./revisions.ts";

export interface ChangesOptions {
  /** The same seed and rates give the same changes. */
  readonly seed: number;
  /** Changes of a path per millisecond; 0: it never changes. */
  readonly rateOf: (path: string) => number;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export interface Changes {
  /** How often a path has changed, and when last. */
  readonly of: (path: string) => Revised;
}

export function createChanges({ seed, rateOf, now }: ChangesOptions): Changes {
  const startedAt = now();
  const paths = new Map<
    string,
    { random: Random; rate: number; revision: number; changedAt: number; nextAt: number }
  >();

  function begun(path: string): NonNullable<ReturnType<(typeof paths)["get"]>> {
    let hash = seed;
    for (const unit of path) hash = Math.imul(hash, 31) + unit.charCodeAt(0);
    const random = seededRandom(hash);
    const rate = rateOf(path);
    const state = {
      random,
      rate,
      revision: 0,
      changedAt: startedAt,
      nextAt: startedAt + pauseOf(rate, random),
    };
    paths.set(path, state);
    return state;
  }

  return {
    of(path) {
      const state = paths.get(path) ?? begun(path);
      while (state.nextAt <= now()) {
        state.revision++;
        state.changedAt = state.nextAt;
        state.nextAt += pauseOf(state.rate, state.random);
      }
      return state;
    },
  };
}

/** The time until the next event of a Poisson process. */
function pauseOf(rate: number, { next }: Random): number {
  return rate > 0 ? -Math.log(1 - next()) / rate : Number.POSITIVE_INFINITY;
}

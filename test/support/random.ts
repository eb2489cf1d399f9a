import { seededRandom } from "../../src/sandbox/dataset/random.ts";

/** Seeded randomness for tests: the same seed gives the same choices. */
export interface TestRandom {
  /** A whole number, both bounds included. */
  readonly between: (min: number, max: number) => number;
  readonly chance: (probability: number) => boolean;
  readonly pick: <T>(items: readonly T[]) => T;
  /** Each item with an even chance, at least one where there are any. */
  readonly some: <T>(items: readonly T[]) => T[];
  readonly shuffled: <T>(items: readonly T[]) => T[];
}

export function createRandom(seed: number): TestRandom {
  const { next, integer: between, chance, pick } = seededRandom(seed ^ 0x9e3779b9);
  return {
    between,
    pick,
    chance,
    some: (items) => {
      const picked = items.filter(() => next() < 0.5);
      return picked.length > 0 || items.length === 0 ? picked : [pick(items)];
    },
    shuffled: (items) =>
      items
        .map((item) => [next(), item] as const)
        .sort(([a], [b]) => a - b)
        .map(([, item]) => item),
  };
}

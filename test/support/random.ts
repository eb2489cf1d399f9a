import { seededRandom } from "../../src/sandbox/dataset/random.ts";

export type TestRandom = ReturnType<typeof createRandom>;

/** Seeded randomness for tests: the same seed gives the same choices. */
export function createRandom(seed: number) {
  const { next, integer: between, chance, pick } = seededRandom(seed ^ 0x9e3779b9);
  return {
    /** A whole number, both bounds included. */
    between,
    pick,
    chance,
    /** Each item with an even chance, at least one if there are any. */
    some: <T>(items: readonly T[]): T[] => {
      const picked = items.filter(() => next() < 0.5);
      return picked.length > 0 || items.length === 0 ? picked : [pick(items)];
    },
    shuffled: <T>(items: readonly T[]): T[] =>
      items
        .map((item) => [next(), item] as const)
        .sort(([a], [b]) => a - b)
        .map(([, item]) => item),
  };
}

/** Seeded randomness for tests: the same seed gives the same throws. */
export interface Dice {
  /** A whole number, both bounds included. */
  readonly between: (min: number, max: number) => number;
  readonly chance: (probability: number) => boolean;
  readonly pick: <T>(items: readonly T[]) => T;
  /** Each item with an even chance, at least one where there are any. */
  readonly some: <T>(items: readonly T[]) => T[];
  readonly shuffled: <T>(items: readonly T[]) => T[];
}

export function createDice(seed: number): Dice {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  // mulberry32
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }
  const between = (min: number, max: number): number => Math.floor(min + next() * (max - min + 1));
  function pick<T>(items: readonly T[]): T {
    const item = items[between(0, items.length - 1)];
    if (item === undefined) throw new RangeError("nothing to pick from");
    return item;
  }
  return {
    between,
    pick,
    chance: (probability) => next() < probability,
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

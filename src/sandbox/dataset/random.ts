/** Seeded random numbers: the same seed gives the same data set on every machine. */
export interface Random {
  /** A number in [0, 1). */
  readonly next: () => number;
  /** A whole number from `low` to `high`, both included. */
  readonly integer: (low: number, high: number) => number;
  /** True with the given probability (0 to 1). */
  readonly chance: (probability: number) => boolean;
  /** @throws RangeError if there are no items */
  readonly pick: <T>(items: readonly T[]) => T;
  /** A bell curve around 0 with a standard deviation of about 1, never beyond ±3. */
  readonly bell: () => number;
}

function itemAt<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new RangeError("nothing to pick from");
  return item;
}

/** Mulberry32. Its 32 bits of state are enough for generated data. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }
  return {
    next,
    integer: (low, high) => low + Math.floor(next() * (high - low + 1)),
    chance: (probability) => next() < probability,
    pick: (items) => itemAt(items, Math.floor(next() * items.length)),
    bell: () => (next() + next() + next()) * 2 - 3,
  };
}

/** @returns a function that picks each item with a probability in proportion to its weight */
export function weightedPicker<T>(items: readonly T[], weightOf: (item: T) => number): (random: Random) => T {
  let total = 0;
  const upTo = items.map((item) => (total += weightOf(item)));
  return (random) => {
    const wanted = random.next() * total;
    const index = upTo.findIndex((bound) => wanted < bound);
    return itemAt(items, index === -1 ? items.length - 1 : index);
  };
}

/**
 * The most frequent keys of an endless stream, in bounded memory (space-saving: Metwally, Agrawal, El Abbadi 2005).
 *
 * Adding a key that is counted costs one look-up. When there is no room for a new key, the less frequent half is dropped at
 * once, and a new key starts with the highest count that was dropped. So no count is too low, and none is too high by more
 * than that. Dropping a half costs one sort, which makes room for as many new keys.
 */
export interface Top {
  /** @param times how often the key occurred; 1 by default */
  readonly add: (key: string, times?: number) => void;
  /** The counts of the most frequent keys, highest first. */
  readonly list: (most: number) => readonly Counted[];
  /** The count of a key; 0 if the key is not among those that are counted. */
  readonly countOf: (key: string) => number;
}

export interface Counted {
  readonly key: string;
  readonly count: number;
}

/** @param room the most keys that are counted at once */
export function createTop(room: number): Top {
  const counters = new Map<string, { count: number }>();
  let floor = 0;

  function makeRoom(): void {
    const ranked = ranking();
    const dropped = ranked.slice(Math.floor(room / 2));
    floor = dropped[0]?.[1].count ?? floor;
    for (const [key] of dropped) counters.delete(key);
  }
  function ranking(): [string, { count: number }][] {
    return [...counters].sort(([, a], [, b]) => b.count - a.count);
  }

  return {
    add(key, times = 1) {
      const counter = counters.get(key);
      if (counter !== undefined) {
        counter.count += times;
        return;
      }
      if (counters.size >= room) makeRoom();
      counters.set(key, { count: floor + times });
    },
    list: (most) =>
      ranking()
        .slice(0, most)
        .map(([key, { count }]) => ({ key, count })),
    countOf: (key) => counters.get(key)?.count ?? 0,
  };
}

/** @returns the sums of several lists, highest first */
export function sumOf(lists: readonly (readonly Counted[])[], most: number): readonly Counted[] {
  const sums = new Map<string, number>();
  for (const { key, count } of lists.flat()) sums.set(key, (sums.get(key) ?? 0) + count);
  return [...sums]
    .map(([key, count]) => ({ key, count }))
    .sort((a, b) => b.count - a.count)
    .slice(0, most);
}

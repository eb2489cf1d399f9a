/**
 * Rolling windows, as pure arithmetic: at most `limit` sends in any `windowMs` milliseconds, for several
 * windows at once. Instants are whole milliseconds of one clock that never goes back; nothing here knows
 * what time it is.
 *
 * A send is allowed at one instant and reaches the upstream at a later one, and the upstream counts from
 * there. So a place is held as if the send were always just arriving, from the moment it is allowed until
 * it is known to have arrived; from then on the window runs. Where that never becomes known, because the
 * process died, the latest possible instant counts (`until`).
 */

/** An allowance: at most `limit` sends within any `windowMs` milliseconds. */
export interface Window {
  /** As written in the settings, e.g. `1m`. */
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
}

export const DAY_MS = 86_400_000;

/**
 * For how long sends are remembered, in milliseconds: as long as they count in a window, and for a day at
 * least, because apps may have a limit for a day, and windows of other lengths may be set at any time.
 */
export function keptMs(windows: readonly Limit[]): number {
  return Math.max(DAY_MS, ...windows.map(({ windowMs }) => windowMs));
}

/** As much of a window as its arithmetic needs. */
export type Limit = Pick<Window, "limit" | "windowMs">;

/** The places taken by sends. Mutated only by the functions below. */
export interface Places {
  /** When sends arrived at the latest, oldest first. */
  readonly arrived: number[];
  /** Index of the oldest that still counts: the ones before it are dropped in bulk. */
  first: number;
  /** Sends on their way: by id, the latest instant at which each can arrive. */
  readonly onTheirWay: Map<string, number>;
}

export function noPlaces(): Places {
  return { arrived: [], first: 0, onTheirWay: new Map() };
}

/** Takes a place for a send that will have arrived by `until`. */
export function takePlace(places: Places, id: string, until: number): void {
  places.onTheirWay.set(id, until);
}

/** The send has arrived by `at`; one that was not on its way is entered all the same. */
export function settlePlace(places: Places, id: string, at: number): void {
  places.onTheirWay.delete(id);
  enter(places, at);
}

/** The send never went. */
export function giveBackPlace(places: Places, id: string): void {
  places.onTheirWay.delete(id);
}

function enter({ arrived, first }: Places, at: number): void {
  // Nearly always the latest; else its place is close to the end.
  let index = arrived.length;
  while (index > first && (arrived[index - 1] ?? at) > at) index--;
  if (index === arrived.length) arrived.push(at);
  else arrived.splice(index, 0, at);
}

/**
 * Settles what must have arrived by now, and drops what no window can see any more.
 * @param horizonMs the longest window
 */
export function tidyPlaces(places: Places, horizonMs: number, now: number): void {
  const { arrived, onTheirWay } = places;
  for (const [id, until] of onTheirWay) {
    if (until <= now) settlePlace(places, id, until);
  }
  while (places.first < arrived.length && (arrived[places.first] ?? 0) < now - horizonMs) places.first++;
  // Cutting the array costs its length, so it is done when half of it is dead.
  if (places.first > 1024 && places.first * 2 > arrived.length) {
    arrived.splice(0, places.first);
    places.first = 0;
  }
}

/** How many sends count in the window that ends now. Expects tidy places. */
export function spentIn(places: Places, windowMs: number, now: number): number {
  return places.arrived.length - oldestIn(places, now - windowMs) + places.onTheirWay.size;
}

/**
 * When the oldest send in the window that ends at an instant arrived, or `now` where all are on their way.
 * @returns nothing where there is none
 */
export function firstIn(
  places: Places,
  windowMs: number,
  { now, at }: { readonly now: number; readonly at: number },
): number | undefined {
  return places.arrived[oldestIn(places, at - windowMs)] ?? (places.onTheirWay.size > 0 ? now : undefined);
}

/** Index of the oldest that arrived at an instant or later. */
function oldestIn({ arrived, first }: Places, since: number): number {
  let low = first;
  let high = arrived.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((arrived[middle] ?? 0) >= since) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * When there is a place in all windows, if `ahead` others go before, each as early as it may.
 * A send on its way is taken to arrive now: it cannot free its place earlier than a window after that.
 * @returns an instant, not before `now`; infinity where a limit is 0
 */
export function freeAt(places: Places, windows: readonly Limit[], now: number, ahead = 0): number {
  if (windows.some(({ limit }) => limit <= 0)) return Number.POSITIVE_INFINITY;
  const { arrived, first, onTheirWay } = places;
  const taken = arrived.length + onTheirWay.size;
  if (windows.every(({ limit }) => taken - first + ahead < limit)) return now;

  // The place of each one ahead, and then one's own. Every window counts from the places that all of
  // them allow, so none can be reckoned by itself.
  const next: number[] = [];
  const instantOf = (index: number): number => {
    if (index < first) return Number.NEGATIVE_INFINITY;
    return index < arrived.length
      ? (arrived[index] ?? now)
      : index < taken
        ? now
        : (next[index - taken] ?? now);
  };
  for (let index = taken; index <= taken + ahead; index++) {
    // In a window a send takes the place of the one `limit` sends before it, a moment after that is free.
    next.push(
      windows.reduce((at, { limit, windowMs }) => Math.max(at, instantOf(index - limit) + windowMs + 1), now),
    );
  }
  return next.at(-1) ?? now;
}

/**
 * Rolling windows, as pure arithmetic: at most `limit` sends in any `windowMs`, for several windows at
 * once. Instants are epoch milliseconds; nothing here knows what time it is.
 */

/** An allowance: at most `limit` sends within any `windowMs` milliseconds. */
export interface Window {
  /** As written in the settings, e.g. `1m`. */
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
}

/** What was sent, oldest first. Mutated only by `recordSend` and `forgetOld`. */
export interface Sends {
  readonly instants: number[];
  /** Index of the oldest instant that still counts: the ones before it are dropped in bulk. */
  first: number;
}

export function noSends(): Sends {
  return { instants: [], first: 0 };
}

/**
 * When the next send may go, if `ahead` others go before it, each as early as it may.
 * @returns an instant, not before `now`
 */
export function earliestSend(windows: readonly Window[], sends: Sends, now: number, ahead = 0): number {
  const { instants, first } = sends;
  const held = instants.length - first;
  if (windows.every(({ limit }) => held + ahead < limit)) return now;

  // The place of each one ahead, and then one's own. Every window counts from the places that all of
  // them allow, so none can be reckoned by itself.
  const places: number[] = [];
  const instantOf = (index: number): number =>
    index < first ? Number.NEGATIVE_INFINITY : (instants[index] ?? places[index - instants.length] ?? now);
  for (let index = instants.length; index <= instants.length + ahead; index++) {
    // In a window a send takes the place of the one `limit` sends before it.
    places.push(
      windows.reduce((at, { limit, windowMs }) => Math.max(at, instantOf(index - limit) + windowMs), now),
    );
  }
  return places.at(-1) ?? now;
}

/** Enters a send. Instants come in order; one that does not, because a clock was set back, counts as the latest. */
export function recordSend(sends: Sends, at: number): void {
  sends.instants.push(Math.max(at, sends.instants.at(-1) ?? at));
}

/** Drops what no window can see any more. */
export function forgetOld(windows: readonly Window[], sends: Sends, now: number): void {
  const horizon = now - Math.max(...windows.map((window) => window.windowMs));
  const { instants } = sends;
  while (sends.first < instants.length && (instants[sends.first] ?? 0) <= horizon) sends.first++;
  // Cutting the array costs its length, so it is done when half of it is dead.
  if (sends.first > 1024 && sends.first * 2 > instants.length) {
    instants.splice(0, sends.first);
    sends.first = 0;
  }
}

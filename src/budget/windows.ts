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

/** What was sent, oldest first. Mutated only by `recordSend` and `forgetBefore`. */
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
  return Math.max(now, ...windows.map((window) => placeIn(window, sends, now, ahead)));
}

/**
 * In one window a send takes the place of the one `limit` sends before it. Where that one is itself
 * among those ahead, whole windows pass first.
 */
function placeIn(
  { limit, windowMs }: Window,
  { instants, first }: Sends,
  now: number,
  ahead: number,
): number {
  const wholeWindows = Math.floor(ahead / limit);
  const predecessor = instants.length - limit + (ahead % limit);
  const place = predecessor < first ? now : Math.max(now, (instants[predecessor] ?? now) + windowMs);
  return place + wholeWindows * windowMs;
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

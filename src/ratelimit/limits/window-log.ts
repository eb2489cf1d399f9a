/**
 * An exact sliding window log: how many calls count in the `windowMs` milliseconds before `now`. Pure arithmetic.
 *
 * A call counts from one instant: the latest instant at which it can arrive at the upstream, or its real arrival when that
 * is known. A call takes eight bytes. Instants are whole milliseconds of a clock that never goes back.
 */

/** The calls of one origin. */
export interface WindowLog {
  /** Enters a call, or moves a known call to another instant. */
  readonly enter: (id: string, app: string, at: number) => void;
  /** Removes a call that was not sent. */
  readonly drop: (id: string) => void;
  /** How many calls count in the window that ends now, of one app or of all. */
  readonly spent: (windowMs: number, now: number, app?: string) => number;
  /**
   * When the `count` oldest calls in the window have left it. A call on its way is treated as if it arrived now.
   * @returns nothing if fewer calls are in the window
   */
  readonly freeAt: (
    windowMs: number,
    now: number,
    query: { readonly count: number; readonly app?: string | undefined },
  ) => number | undefined;
  /** The next instants at which permits become free in a window, ascending, at most `most`. */
  readonly freeInstants: (windowMs: number, now: number, most: number) => number[];
  readonly byApp: (windowMs: number, now: number) => Map<string, number>;
  /** All calls, by id. */
  readonly calls: () => ReadonlyMap<string, { readonly app: string; readonly at: number }>;
  /** Forgets calls that count from earlier instants. */
  readonly forget: (before: number) => void;
}

/** Ascending instants. Those before the index `first` are forgotten. */
interface Instants {
  readonly all: number[];
  first: number;
}

export function createWindowLog(): WindowLog {
  const total: Instants = { all: [], first: 0 };
  const apps = new Map<string, Instants>();
  const calls = new Map<string, { readonly app: string; readonly at: number }>();

  function of(app: string | undefined): Instants {
    return app === undefined ? total : (apps.get(app) ?? { all: [], first: 0 });
  }

  function drop(id: string): void {
    const call = calls.get(id);
    if (call === undefined) return;
    calls.delete(id);
    remove(total, call.at);
    remove(of(call.app), call.at);
  }

  return {
    enter(id, app, at) {
      drop(id);
      const own = of(app);
      apps.set(app, own);
      calls.set(id, { app, at });
      insert(total, at);
      insert(own, at);
    },
    drop,
    spent: (windowMs, now, app) => of(app).all.length - indexAfter(of(app), now - windowMs),
    freeAt(windowMs, now, { count, app }) {
      const instants = of(app);
      const at = instants.all[indexAfter(instants, now - windowMs) + count - 1];
      return at === undefined ? undefined : Math.min(at, now) + windowMs + 1;
    },
    freeInstants(windowMs, now, most) {
      const from = indexAfter(total, now - windowMs);
      const instants: number[] = [];
      // Every call asks for this several times. A loop takes a quarter of the time of `slice` and `map`.
      for (let at = from; at < Math.min(from + most, total.all.length); at++)
        instants.push(Math.min(total.all[at] ?? now, now) + windowMs + 1);
      return instants;
    },
    byApp(windowMs, now) {
      const counts = [...apps].map(
        ([app, own]) => [app, own.all.length - indexAfter(own, now - windowMs)] as const,
      );
      return new Map(counts.filter(([, count]) => count > 0));
    },
    calls: () => calls,
    forget(before) {
      for (const [id, { at }] of calls) {
        // The calls are roughly in order. A call that is missed now is forgotten later.
        if (at >= before) break;
        calls.delete(id);
      }
      forgetIn(total, before);
      for (const [app, own] of apps) {
        forgetIn(own, before);
        if (own.first === own.all.length) apps.delete(app);
      }
    },
  };
}

/** @returns the index of the first instant after `instant` */
function indexAfter({ all, first }: Instants, instant: number): number {
  let low = first;
  let high = all.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((all[middle] ?? 0) > instant) high = middle;
    else low = middle + 1;
  }
  return low;
}

function insert(instants: Instants, at: number): void {
  const index = indexAfter(instants, at);
  if (index === instants.all.length) instants.all.push(at);
  else instants.all.splice(index, 0, at);
}

function remove(instants: Instants, at: number): void {
  const index = indexAfter(instants, at) - 1;
  if (index >= instants.first && instants.all[index] === at) instants.all.splice(index, 1);
}

function forgetIn(instants: Instants, before: number): void {
  instants.first = indexAfter(instants, before - 1);
  // Cutting the array costs time in proportion to its length, so wait until half of it is forgotten.
  if (instants.first > 64 && instants.first * 2 > instants.all.length) {
    instants.all.splice(0, instants.first);
    instants.first = 0;
  }
}

/** The apps that were seen in the last minute, and how much each of them asked. */
export interface ActiveApps {
  /** An app asks for a call here. */
  readonly asks: (app: string) => void;
  /** Calls of an app wait at another replica. */
  readonly isSeen: (app: string) => void;
  /** For each active app: its recent calls, refused ones included. */
  readonly asked: () => ReadonlyMap<string, number>;
}

const ACTIVE_MS = 60_000;

/** @param now monotonic milliseconds */
export function createActiveApps(now: () => number): ActiveApps {
  /** Least recently seen first. Counts decay, so that a minute is enough to forget. */
  const seen = new Map<string, { readonly at: number; readonly count: number }>();

  function see(app: string, by: number): void {
    const at = now();
    const last = seen.get(app) ?? { at, count: 0 };
    seen.delete(app);
    seen.set(app, { at, count: last.count * Math.exp((last.at - at) / ACTIVE_MS) + by });
  }

  return {
    asks: (app) => see(app, 1),
    isSeen: (app) => see(app, 0),
    asked() {
      const since = now() - ACTIVE_MS;
      for (const [app, { at }] of seen) {
        if (at >= since) break;
        seen.delete(app);
      }
      return new Map([...seen].map(([app, { count }]) => [app, count]));
    },
  };
}

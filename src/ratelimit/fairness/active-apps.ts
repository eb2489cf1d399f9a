/** The apps that were seen in the last minute, and how much each of them asks. */
export interface ActiveApps {
  /** An app asks for a call here. */
  readonly asks: (app: string) => void;
  /** An app still waits. */
  readonly isSeen: (app: string) => void;
  /** For each active app: the calls that it asks for in a minute, refused ones included. */
  readonly perMinute: () => ReadonlyMap<string, number>;
}

const ACTIVE_MS = 60_000;

interface Seen {
  readonly since: number;
  readonly at: number;
  readonly count: number;
}

/** @param now monotonic milliseconds */
export function createActiveApps(now: () => number): ActiveApps {
  /** Least recently seen first. Counts decay, so that a minute is enough to forget. */
  const seen = new Map<string, Seen>();

  function see(app: string, by: number): void {
    const at = now();
    const last = seen.get(app);
    seen.delete(app);
    const isNew = last === undefined || last.at < at - ACTIVE_MS;
    seen.set(app, isNew ? { since: at, at, count: by } : { ...last, at, count: decayed(last, at) + by });
  }

  return {
    asks: (app) => see(app, 1),
    isSeen: (app) => see(app, 0),
    perMinute() {
      const at = now();
      for (const [app, last] of seen) {
        if (last.at >= at - ACTIVE_MS) break;
        seen.delete(app);
      }
      return new Map([...seen].map(([app, last]) => [app, decayed(last, at) / knownPart(at - last.since)]));
    },
  };
}

function decayed({ at, count }: Seen, now: number): number {
  return count * Math.exp((at - now) / ACTIVE_MS);
}

/** An app that asks evenly has this part of its final count after a time. The first calls count as those of a minute. */
function knownPart(forMs: number): number {
  return 1 - Math.exp(-Math.max(ACTIVE_MS, forMs) / ACTIVE_MS);
}

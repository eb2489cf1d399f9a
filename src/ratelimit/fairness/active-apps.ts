/** The apps that were seen in the last minute, and how many calls each asks for, refused ones included. */

const ACTIVE_MS = 60_000;

/** Instants are monotonic milliseconds. Counts decay with a time constant of a minute. */
interface Seen {
  readonly since: number;
  readonly at: number;
  readonly count: number;
}

export class ActiveApps {
  readonly #seen = new Map<string, Seen>();

  /** The app asks for a call. */
  see(app: string, at: number): void {
    const last = this.#seen.get(app);
    const isNew = last === undefined || last.at < at - ACTIVE_MS;
    const { since, count } = isNew ? { since: at, count: 0 } : { ...last, count: decayed(last, at) };
    this.#seen.set(app, { since, at, count: count + 1 });
  }

  /** For each active app: the calls that it asks for in a minute. */
  perMinute(at: number): Map<string, number> {
    for (const [app, last] of this.#seen) if (last.at < at - ACTIVE_MS) this.#seen.delete(app);
    // The part of its final count that an app with a steady rate has reached. Its first minute counts as a whole one.
    const known = ({ since }: Seen): number => 1 - Math.exp(-Math.max(ACTIVE_MS, at - since) / ACTIVE_MS);
    return new Map([...this.#seen].map(([app, last]) => [app, decayed(last, at) / known(last)]));
  }
}

function decayed({ at, count }: Seen, now: number): number {
  return count * Math.exp((at - now) / ACTIVE_MS);
}

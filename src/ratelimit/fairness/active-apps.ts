/** The apps that were seen in the last minute, and how much each of them asks, refused calls included. */

const ACTIVE_MS = 60_000;

/** Instants are monotonic milliseconds. Counts decay, so that a minute is enough to forget. */
interface Seen {
  readonly since: number;
  readonly at: number;
  readonly count: number;
}

export class ActiveApps {
  /** Least recently seen first. */
  readonly #seen = new Map<string, Seen>();

  /** @param calls how many calls the app asks for now; 0 if it still waits for one */
  see(app: string, calls: 0 | 1, at: number): void {
    const last = this.#seen.get(app);
    const isNew = last === undefined || last.at < at - ACTIVE_MS;
    this.#seen.delete(app);
    const count = calls + (isNew ? 0 : decayed(last, at));
    this.#seen.set(app, { since: isNew ? at : last.since, at, count });
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

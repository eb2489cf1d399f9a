/**
 * An exact sliding window log: how many calls count in the `windowMs` milliseconds before `now`. Pure arithmetic.
 *
 * A call counts from one instant: the latest instant at which it can arrive at the upstream, or its real arrival when that
 * is known. A call takes eight bytes. Instants are whole milliseconds of a clock that never goes back.
 */

/** The calls of one origin. */
export class WindowLog {
  readonly #total = new Instants();
  readonly #apps = new Map<string, Instants>();
  readonly #calls = new Map<string, { readonly app: string; readonly at: number }>();

  /** Enters a call, or moves a known call to another instant. */
  enter(id: string, app: string, at: number): void {
    this.drop(id);
    const own = this.#apps.get(app) ?? new Instants();
    this.#apps.set(app, own);
    this.#calls.set(id, { app, at });
    for (const instants of [this.#total, own]) instants.insert(at);
  }

  /** Removes a call that was not sent. */
  drop(id: string): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    for (const instants of [this.#total, this.#apps.get(call.app)]) instants?.remove(call.at);
  }

  has(id: string): boolean {
    return this.#calls.has(id);
  }

  /** How many calls count in the window that ends now, of one app or of all. */
  spent(windowMs: number, now: number, app?: string): number {
    return this.#of(app)?.countAfter(now - windowMs) ?? 0;
  }

  /**
   * The next instants at which calls leave the window, ascending, at most `most`. A call on its way is treated as if it
   * arrived now.
   */
  freeInstants(windowMs: number, now: number, most: number, app?: string): number[] {
    const instants = this.#of(app)?.after(now - windowMs, most) ?? [];
    return instants.map((at) => Math.min(at, now) + windowMs + 1);
  }

  /** Calls that count in the window, of each app that has some. */
  byApp(windowMs: number, now: number): Map<string, number> {
    const counts = new Map<string, number>();
    for (const [app, own] of this.#apps) {
      const count = own.countAfter(now - windowMs);
      if (count > 0) counts.set(app, count);
    }
    return counts;
  }

  /** Forgets calls that count from earlier instants. */
  forget(before: number): void {
    for (const [id, { at }] of this.#calls) {
      // The calls are roughly in order. A call that is missed now is forgotten later.
      if (at >= before) break;
      this.#calls.delete(id);
    }
    this.#total.forget(before);
    for (const [app, own] of this.#apps) if (own.forget(before) === 0) this.#apps.delete(app);
  }

  #of(app: string | undefined): Instants | undefined {
    return app === undefined ? this.#total : this.#apps.get(app);
  }
}

/** Ascending instants. */
class Instants {
  readonly #all: number[] = [];
  /** Those before this index are forgotten. */
  #first = 0;

  countAfter(instant: number): number {
    return this.#all.length - this.#indexAfter(instant);
  }

  after(instant: number, most: number): number[] {
    const from = this.#indexAfter(instant);
    return this.#all.slice(from, from + most);
  }

  insert(at: number): void {
    this.#all.splice(this.#indexAfter(at), 0, at);
  }

  remove(at: number): void {
    const index = this.#indexAfter(at) - 1;
    if (index >= this.#first && this.#all[index] === at) this.#all.splice(index, 1);
  }

  /** @returns how many are left */
  forget(before: number): number {
    this.#first = this.#indexAfter(before - 1);
    // Cutting the array costs time in proportion to its length, so wait until half of it is forgotten.
    if (this.#first > 64 && this.#first * 2 > this.#all.length) {
      this.#all.splice(0, this.#first);
      this.#first = 0;
    }
    return this.#all.length - this.#first;
  }

  /** @returns the index of the first instant after `instant` */
  #indexAfter(instant: number): number {
    let low = this.#first;
    let high = this.#all.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#all[middle] ?? 0) > instant) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

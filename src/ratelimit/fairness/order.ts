/** Which of the calls goes next whose instant has come. docs/fairness.md explains the rules. */
import { PRIORITIES } from "../../telemetry/events.ts";
import type { AppCall } from "../throttled.ts";
import type { Shares } from "./shares.ts";

/** A waiting call that may be charged to this app. */
interface Head extends AppCall {
  readonly entry: { readonly at: number };
}

/** Apps take turns by weight (start-time fair queueing). An app that was away does not catch up. */
class Turns {
  readonly #next = new Map<string, number>();
  #now = 0;

  of(name: string): number {
    return Math.max(this.#now, this.#next.get(name) ?? 0);
  }

  take(name: string, weight: number): void {
    this.#now = this.of(name);
    for (const [other, turn] of this.#next) if (turn <= this.#now) this.#next.delete(other);
    this.#next.set(name, this.#now + 1 / weight);
  }
}

/** All unlisted ids take turns as one app, and among each other. */
export class FairOrder {
  readonly #apps = new Turns();
  readonly #ids = new Turns();
  readonly #isListed: (app: string) => boolean;

  constructor(isListed: (app: string) => boolean) {
    this.#isListed = isListed;
  }

  /** Negative if the first of two calls goes first. */
  readonly compare = (a: Head, b: Head): number =>
    PRIORITIES.indexOf(a.priority) - PRIORITIES.indexOf(b.priority) ||
    this.#turnOf(a) - this.#turnOf(b) ||
    this.#ids.of(a.app) - this.#ids.of(b.app) ||
    a.entry.at - b.entry.at;

  #turnOf({ app }: Head): number {
    return this.#apps.of(this.#isListed(app) ? app : GROUP);
  }

  /** A call departs. */
  departs(app: string, shares: Shares): void {
    if (this.#isListed(app)) return this.#apps.take(app, shares.of(app));
    this.#apps.take(GROUP, shares.ofGroup(app));
    this.#ids.take(app, shares.of(app));
  }
}

const GROUP = "";

/** Which of the calls goes next whose instant has come. docs/fairness.md explains the rules. */
import { PRIORITIES } from "../../telemetry/events.ts";
import type { WaitingCall } from "./places.ts";
import type { AppCall } from "../throttled.ts";
import type { Shares } from "./shares.ts";

/** A waiting call that may be charged to this app. */
export interface Head<C extends WaitingCall> extends AppCall {
  readonly entry: C;
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

  /** The calls, the first one first. */
  of<C extends WaitingCall>(calls: readonly Head<C>[]): Head<C>[] {
    const ranked = calls.map((call) => {
      const turn = this.#apps.of(this.#isListed(call.app) ? call.app : GROUP);
      return { call, rank: [PRIORITIES.indexOf(call.priority), turn, this.#ids.of(call.app), call.entry.at] };
    });
    return ranked.toSorted((a, b) => compare(a.rank, b.rank)).map(({ call }) => call);
  }

  /** A call departs. */
  departs(app: string, shares: Shares): void {
    if (this.#isListed(app)) return this.#apps.take(app, shares.of(app));
    this.#apps.take(GROUP, shares.ofGroup(app));
    this.#ids.take(app, shares.of(app));
  }
}

const GROUP = "";

function compare(a: readonly number[], b: readonly number[]): number {
  const index = a.findIndex((value, at) => value !== b[at]);
  return index < 0 ? 0 : (a[index] ?? 0) - (b[index] ?? 0);
}

/**
 * Whose turn it is: turns ask for places one after the other, and each place goes to whoever is first in
 * the fair order by then. A turn sleeps until the allowance says when to ask again, or something changes.
 */
import type { Priority } from "../types.ts";
import { pause, type Clock } from "../process/clock.ts";
import type { Allowance, Grant, Taken } from "./allowance.ts";
import type { Place, WaitingLine } from "./waiting-line.ts";

export interface TurnsOptions<W> {
  readonly allowance: Allowance;
  readonly line: WaitingLine<W>;
  readonly clock: Clock;
  readonly mayGo: (priority: Priority) => boolean;
  /** Nothing waits for a place. */
  readonly isUnlimited: () => boolean;
}

/** Somebody who may send, and the place. */
interface Departure<W> {
  readonly waiter: W;
  readonly grant: Grant;
}

export interface Turns<W> {
  /** Waits until somebody in the line may send. @returns nothing where nobody waits any more */
  readonly next: () => Promise<Departure<W> | undefined>;
  /** Who is first, or what may be had, may have changed. */
  readonly changed: () => void;
}

/** A place that took longer to come is not used: a send departs soon after it was allowed. */
const LONGEST_ASKING_MS = 1_000;

export function createTurns<W>(options: TurnsOptions<W>): Turns<W> {
  const { allowance, line, clock, mayGo, isUnlimited } = options;
  const change = createSignal();
  let asking: Promise<unknown> = Promise.resolve();

  async function take(heads: readonly Place<W>[]): Promise<Taken> {
    const [first] = heads;
    if (first === undefined) return { kind: "wait", forMs: Number.POSITIVE_INFINITY };
    if (isUnlimited()) return { kind: "granted", grant: await allowance.takeAnyway(first.wish) };
    // Where nobody else's turn could come, whoever stood there first pays if it can.
    const isOnlyOne = heads.length > 1 && heads.every(({ waiter }) => waiter === first.waiter);
    if (isOnlyOne && allowance.expect(first.wish, []).forMs <= 0) {
      const taken = await allowance.take([first.wish]);
      if (taken.kind === "granted") return taken;
    }
    return await allowance.take(heads.map(({ wish }) => wish));
  }

  async function waitForDeparture(): Promise<Departure<W> | undefined> {
    while (!line.isEmpty()) {
      // Before looking, so that no change is missed.
      const changed = change.next();
      const heads = line.heads(mayGo);
      const askedAt = clock.monotonic();
      const taken = await take(heads);
      if (taken.kind === "wait") {
        await pause(clock, taken.forMs, changed);
        continue;
      }
      const place = heads.find(({ wish }) => wish === taken.grant.wish);
      const isPrompt = clock.monotonic() - askedAt <= LONGEST_ASKING_MS;
      if (isPrompt && place !== undefined && line.holds(place)) {
        line.leave(place.waiter);
        return { waiter: place.waiter, grant: taken.grant };
      }
      // Withdrawn while it was being asked for, or its app was; or this process was stopped, and the place may be stale.
      allowance.giveBack(taken.grant);
    }
    return undefined;
  }

  return {
    next() {
      const next = asking.then(waitForDeparture);
      asking = next.catch(() => undefined);
      return next;
    },
    changed: change.raise,
  };
}

/** Something that happens now and then; who waits for it gets a signal of its own, raised the next time. */
function createSignal(): { readonly next: () => AbortSignal; readonly raise: () => void } {
  let controller = new AbortController();
  return {
    next: () => controller.signal,
    raise() {
      const raised = controller;
      controller = new AbortController();
      // A reason of its own: the default is an error with a stack, made anew each time.
      raised.abort(null);
    },
  };
}

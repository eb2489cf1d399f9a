/**
 * The callers that wait for one flight: their latest deadline, their highest priority and their apps.
 */
import { PRIORITIES, type Priority, type Waiter, type Waiting } from "../types.ts";

export interface Waiters extends Pick<Waiting, "deadlineAt" | "priority" | "apps" | "onChange"> {
  readonly join: (waiter: Waiter) => void;
  /** @returns how many are left */
  readonly leave: (waiter: Waiter) => number;
}

/** @param first the priority of the waiter that starts the flight */
export function createWaiters(first: Priority): Waiters {
  const waiters = new Set<Waiter>();
  /** How many waiters each app has: thousands of them cause one notification. */
  const byApp = new Map<string, number>();
  let rank = PRIORITIES.indexOf(first);
  const listeners: (() => void)[] = [];
  const notify = (): void => listeners.forEach((listen) => listen());
  return {
    deadlineAt: () => latestDeadline(waiters),
    priority: () => PRIORITIES[rank] ?? first,
    apps: () => [...byApp.keys()],
    onChange: (listen) => void listeners.push(listen),
    join(waiter) {
      const { app, priority } = waiter;
      const [ofApp, joined] = [byApp.get(app) ?? 0, PRIORITIES.indexOf(priority)];
      const isNews = ofApp === 0 || joined < rank;
      waiters.add(waiter);
      byApp.set(app, ofApp + 1);
      rank = Math.min(rank, joined);
      if (isNews) notify();
    },
    leave(waiter) {
      const left = (byApp.get(waiter.app) ?? 0) - 1;
      waiters.delete(waiter);
      if (left > 0) byApp.set(waiter.app, left);
      else byApp.delete(waiter.app);
      if (left <= 0 && waiters.size > 0) notify();
      return waiters.size;
    },
  };
}

function latestDeadline(waiters: ReadonlySet<Waiter>): number {
  let latest = Number.NEGATIVE_INFINITY;
  for (const { placeBy, deadlineAt } of waiters) latest = Math.max(latest, placeBy ?? deadlineAt);
  return latest;
}

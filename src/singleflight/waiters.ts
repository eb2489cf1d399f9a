/**
 * Those who wait for one flight: in this process each for himself, at other replicas each replica as a whole.
 *
 * Who waits elsewhere makes a flight more urgent and may pay for it, but neither prolongs nor keeps it: what is said
 * between replicas can get lost, and nothing is to be asked of the upstream for those who may have gone long ago.
 */
import { type FlightWaiting, PRIORITIES, type Priority, type Waiter } from "../types.ts";

export interface Aboard extends Pick<
  FlightWaiting,
  "deadlineAt" | "priority" | "apps" | "onChange" | "elsewhere"
> {
  readonly join: (waiter: Waiter) => void;
  /** @returns how many are left in this process */
  readonly leave: (waiter: Waiter) => number;
}

/** @param first how urgent the one is who launches it */
export function createAboard(first: Priority): Aboard {
  const waiters = new Set<Waiter>();
  /** How many of each app: thousands who join are told of once. */
  const byApp = new Map<string, number>();
  /** The apps of those who wait at other replicas, by replica. */
  const byReplica = new Map<string, readonly string[]>();
  let rank = PRIORITIES.indexOf(first);
  const listeners: (() => void)[] = [];
  const tell = (): void => listeners.forEach((listen) => listen());
  return {
    deadlineAt: () => latestDeadline(waiters),
    priority: () => PRIORITIES[rank] ?? first,
    apps: () => [...new Set([...byApp.keys(), ...[...byReplica.values()].flat()])],
    onChange: (listen) => void listeners.push(listen),
    join(waiter) {
      const { app, priority } = waiter;
      const [ofApp, joined] = [byApp.get(app) ?? 0, PRIORITIES.indexOf(priority)];
      const isNews = ofApp === 0 || joined < rank;
      waiters.add(waiter);
      byApp.set(app, ofApp + 1);
      rank = Math.min(rank, joined);
      if (isNews) tell();
    },
    leave(waiter) {
      const left = (byApp.get(waiter.app) ?? 0) - 1;
      waiters.delete(waiter);
      if (left > 0) byApp.set(waiter.app, left);
      else byApp.delete(waiter.app);
      if (left <= 0 && waiters.size > 0) tell();
      return waiters.size;
    },
    elsewhere(replica, { apps, priority }) {
      if (apps.length === 0) byReplica.delete(replica);
      else {
        byReplica.set(replica, apps);
        rank = Math.min(rank, PRIORITIES.indexOf(priority));
      }
      if (waiters.size > 0) tell();
    },
  };
}

function latestDeadline(waiters: ReadonlySet<Waiter>): number {
  let latest = Number.NEGATIVE_INFINITY;
  for (const { placeBy, deadlineAt } of waiters) latest = Math.max(latest, placeBy ?? deadlineAt);
  return latest;
}

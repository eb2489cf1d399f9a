/**
 * Calls in flight, up to `budget.concurrency`. Each one holds a slot. While calls of other apps wait, no app holds more
 * slots than its share. While other apps are active, an app beyond its share leaves one slot free.
 */
import type { Priority } from "../types.ts";

export interface Slots {
  readonly take: (app: string, priority: Priority) => void;
  readonly free: (app: string, priority: Priority) => void;
  readonly inFlight: () => number;
  /**
   * Whether the next call may start.
   * @param others.waiting apps with a waiting call
   * @param others.active apps that were seen recently
   */
  readonly mayTake: (
    call: { readonly app: string; readonly priority: Priority },
    others: { readonly waiting: ReadonlySet<string>; readonly active: ReadonlySet<string> },
  ) => boolean;
}

export function createSlots(concurrency: () => number, weightOf: (app: string) => number): Slots {
  const byApp = new Map<string, number>();
  let [total, background] = [0, 0];
  const add = (app: string, priority: Priority, by: number): void => {
    const held = (byApp.get(app) ?? 0) + by;
    if (held > 0) byApp.set(app, held);
    else byApp.delete(app);
    total += by;
    if (priority !== "interactive") background += by;
  };
  return {
    take: (app, priority) => add(app, priority, 1),
    free: (app, priority) => add(app, priority, -1),
    inFlight: () => total,
    mayTake({ app, priority }, { waiting, active }) {
      const most = concurrency();
      if (total >= most) return false;
      // Background work leaves one slot to interactive calls.
      if (priority !== "interactive" && background >= Math.max(1, most - 1)) return false;
      const held = byApp.get(app) ?? 0;
      const shareAmong = (others: Iterable<string>): number => {
        let weights = weightOf(app);
        for (const other of new Set(others)) if (other !== app) weights += weightOf(other);
        return Math.max(1, (most * weightOf(app)) / weights);
      };
      const isOther = (other: string): boolean => other !== app;
      const wanting = [...byApp.keys(), ...waiting];
      if ([...waiting].some(isOther) && held + 1 > shareAmong(wanting)) return false;
      const present = [...wanting, ...active];
      return held + 1 <= shareAmong(present) || total + 1 < most || !present.some(isOther);
    },
  };
}

/**
 * The calls in flight, at most `budget.concurrency`. While calls of other apps wait, no app has more calls in flight than
 * its share. While other apps are active, an app beyond its share leaves room for one call.
 */
import type { Priority } from "../types.ts";

export interface InFlight {
  readonly add: (app: string, priority: Priority) => void;
  readonly remove: (app: string, priority: Priority) => void;
  readonly count: () => number;
  /**
   * Whether the next call may start.
   * @param others.waiting apps with a waiting call
   * @param others.active apps that were seen recently
   */
  readonly mayAdd: (
    call: { readonly app: string; readonly priority: Priority },
    others: { readonly waiting: ReadonlySet<string>; readonly active: ReadonlySet<string> },
  ) => boolean;
}

export function createInFlight(concurrency: () => number, weightOf: (app: string) => number): InFlight {
  const byApp = new Map<string, number>();
  let [total, background] = [0, 0];
  const change = (app: string, priority: Priority, by: number): void => {
    const held = (byApp.get(app) ?? 0) + by;
    if (held > 0) byApp.set(app, held);
    else byApp.delete(app);
    total += by;
    if (priority !== "interactive") background += by;
  };
  return {
    add: (app, priority) => change(app, priority, 1),
    remove: (app, priority) => change(app, priority, -1),
    count: () => total,
    mayAdd({ app, priority }, { waiting, active }) {
      const most = concurrency();
      if (total >= most) return false;
      // Background work leaves room for one interactive call.
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

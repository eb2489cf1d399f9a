/**
 * Calls in progress, and who may start another one. While calls of other apps wait, no app holds more than its share
 * of the slots; an app that holds more than its share leaves one slot free as long as other apps are active.
 */
import type { Priority } from "../types.ts";

export interface Slots {
  readonly take: (app: string, priority: Priority) => void;
  readonly free: (app: string, priority: Priority) => void;
  readonly inFlight: () => number;
  /**
   * @param waiting apps that have a call waiting
   * @param active apps that were seen lately
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
      // Work that nobody waits for leaves one slot to calls that somebody waits for.
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
      const about = [...wanting, ...active];
      return held + 1 <= shareAmong(about) || total + 1 < most || !about.some(isOther);
    },
  };
}

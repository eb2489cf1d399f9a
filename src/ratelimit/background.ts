import type { Priority } from "../types.ts";

/** Work that nobody waits for leaves one of the calls at once to those that somebody waits for. */
export interface Background {
  readonly mayGo: (priority: Priority) => boolean;
  readonly began: (priority: Priority) => void;
  readonly ended: (priority: Priority) => void;
}

/** @param concurrency calls at once, in all */
export function createBackground(concurrency: () => number): Background {
  const most = (): number => Math.max(1, concurrency() - 1);
  let onTheirWay = 0;
  return {
    mayGo: (priority) => priority === "interactive" || onTheirWay < most(),
    began: (priority) => void (onTheirWay += priority === "interactive" ? 0 : 1),
    ended: (priority) => void (onTheirWay -= priority === "interactive" ? 0 : 1),
  };
}

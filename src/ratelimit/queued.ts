/** Who waits for their turn, and what that means for one who joins them. Pure. */
import { PRIORITIES, type Priority } from "../types.ts";
import type { Ahead, Candidate } from "./arbiter.ts";

/** How many of an app's calls of one priority wait for their turn. */
export interface Queued {
  readonly app: string;
  readonly priority: Priority;
  readonly length: number;
}

/** @returns how many go before one that would join now, the apps taking turns by weight */
export function aheadOf(
  { app, priority }: Candidate,
  queued: readonly Queued[],
  weightOf: (app: string) => number,
): Ahead {
  const waiting = new Map<string, number>([[app, 0]]);
  const until = PRIORITIES.indexOf(priority);
  for (const { app: other, priority: theirs, length } of queued) {
    if (PRIORITIES.indexOf(theirs) <= until) waiting.set(other, (waiting.get(other) ?? 0) + length);
  }
  const ownAhead = waiting.get(app) ?? 0;
  let ahead = ownAhead;
  for (const [other, length] of waiting) {
    // While this app is served so often, another one is in proportion to its weight.
    const turns = Math.ceil(((ownAhead + 1) * weightOf(other)) / weightOf(app));
    if (other !== app) ahead += Math.min(length, turns);
  }
  return { ahead, ownAhead };
}

/**
 * What other processes on the same file have sent, by this process' own clock. Pure but for the standing it
 * is given.
 *
 * The ledger says when something was by the time of day, which may be set at any time; the windows go by a
 * clock that only ever runs forward, and each process has its own. What is new to this process since it
 * looked last was written since then: so between two looks there are two differences of the clocks that can
 * have held when it was written, the one before and the one now, and the later of the two instants that
 * follow is taken, but never one that is still to come. A send counts a moment too long rather than not long
 * enough.
 */
import { arrive, enter, enterAnothers, giveBack, type Standing, type Terms } from "./arbiter.ts";
import type { CompletedLine, LedgerLine, LedgerNews } from "../usage/ledger.ts";

/** One moment by both clocks, in milliseconds. */
export interface Moment {
  /** By the time of day, since the epoch. */
  readonly now: number;
  readonly monotonic: number;
}

/** Each of the clocks is cut to whole milliseconds. */
const ROUNDING_MS = 1;

/**
 * @param at by the time of day, written after `last` and before `moment`
 * @param earliest by the monotonic clock: it was not before this
 * @returns the same by the monotonic clock, or somewhat later
 */
export function steadily(at: number, last: Moment, moment: Moment, earliest: number): number {
  const difference = Math.min(last.now - last.monotonic, moment.now - moment.monotonic);
  return Math.min(Math.max(at - difference + ROUNDING_MS, earliest), moment.monotonic);
}

/** Enters what a process finds when it begins: what those before it sent, and those that live. */
export function begin(
  standing: Standing,
  terms: Terms,
  entered: readonly LedgerLine[],
  moment: Moment,
): void {
  for (const line of entered) {
    const { id, app, at, completion } = line;
    const monotonic = (instant: number): number =>
      steadily(instant, moment, moment, Number.NEGATIVE_INFINITY);
    // Not completed: its process may still be at it, or was killed. Then it has arrived as late as it could.
    const until = completion === undefined ? monotonic(at) + terms.leaseMs : monotonic(completion.arrivedAt);
    enter(standing, terms, { id, app, until }, moment.monotonic);
    if (until <= moment.monotonic) arrive(standing, { id, app }, until);
  }
}

/** Enters what others have sent, and how it ended, since the last look. */
export function keepUp(
  standing: Standing,
  terms: Terms,
  { entered, ended }: LedgerNews,
  last: Moment,
  moment: Moment,
): void {
  const monotonic = (instant: number, earliest = last.monotonic): number =>
    steadily(instant, last, moment, earliest);
  for (const line of ended)
    endOf(standing, line, (at) => monotonic(at, last.monotonic - line.completion.durationMs));
  for (const line of entered) {
    if (line.completion?.status === "unsent") continue;
    const { id, app } = line;
    const at = monotonic(line.at);
    enterAnothers(standing, terms, { id, app, until: at + terms.leaseMs, at }, moment.monotonic);
    if (line.completion !== undefined) endOf(standing, { ...line, completion: line.completion }, monotonic);
  }
}

function endOf(
  standing: Standing,
  { id, app, completion }: CompletedLine,
  monotonic: (at: number) => number,
): void {
  if (completion.status === "unsent") giveBack(standing, { id, app });
  else arrive(standing, { id, app }, monotonic(completion.arrivedAt));
}

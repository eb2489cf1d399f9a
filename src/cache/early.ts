import type { Entry } from "../types.ts";

/**
 * Whether a fresh entry is to be refreshed now, before its time (XFetch: Vattani, Chierichetti, Lowenstein,
 * "Optimal Probabilistic Cache Stampede Prevention", VLDB 2015, with a beta of 1). Each request for it throws
 * the dice, the more likely the nearer the end and the longer a fetch takes: so it is what is asked for often
 * that is refreshed.
 * @param dice from 0 up to, not including, 1
 * @param now epoch milliseconds
 */
export function isDueEarly({ freshUntil, fetchMs }: Entry, dice: number, now: number): boolean {
  return now - fetchMs * Math.log(1 - dice) >= freshUntil;
}

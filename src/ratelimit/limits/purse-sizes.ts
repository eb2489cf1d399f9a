/**
 * How each limit is divided into the shared purse and the own purses, and by how much clocks and messages may be wrong.
 * Pure.
 */
import type { RateWindow } from "../../usage/rate-window.ts";

export interface PurseSettings {
  /** Most replicas at once (REPLICAS). Each has a slot with an own purse. */
  readonly replicas: number;
  /** All own purses together, as a fraction of each limit. */
  readonly degradedReserve: number;
}

/** limit = replicas × own + shared purse */
export interface PurseWindow extends RateWindow {
  /** The size of each own purse. */
  readonly own: number;
}

/**
 * A call counts in every window. If an own purse has no call in one of them, its calls in the others would be lost for
 * everybody, so then there are no own purses.
 */
export function pursesOf(
  windows: readonly RateWindow[],
  { replicas, degradedReserve }: PurseSettings,
): PurseWindow[] {
  const ownOf = ({ limit }: RateWindow): number => Math.floor((limit * degradedReserve) / replicas);
  const isUsable = windows.every((window) => ownOf(window) > 0);
  return windows.map((window) => ({ ...window, own: isUsable ? ownOf(window) : 0 }));
}

/** All that decides the sizes of the own purses. */
export function purseName(windows: readonly PurseWindow[], replicas: number): string {
  return `${replicas}:${windows.map(({ windowMs, own }) => `${own}/${windowMs}`).join(",")}`;
}

/** How much two monotonic clocks may differ in speed. */
export const DRIFT = 0.001;
/** How much the script's time may differ in speed from a monotonic clock. */
export const SCRIPT_DRIFT = 3 * DRIFT;
/** Clocks are cut to whole milliseconds. */
export const ROUNDING_MS = 2;

/** @returns a duration on one clock that is certainly as long on another one */
export const atLeast = (ms: number): number => Math.ceil(ms * (1 + DRIFT));
/** @returns a duration on one clock that is certainly not longer on another one */
export const atMost = (ms: number): number => Math.floor(ms * (1 - DRIFT));

/**
 * The part of `arrivalMs` that is left for the transfer to the upstream. This time is longer than the header timeout. So a call
 * that gets no answer is reset while it still counts.
 */
const TRANSIT = 0.6;

/** @returns the latest instant at which a call may be written to a socket if its permit was granted now */
export const sendByOf = (now: number, arrivalMs: number): number => now + arrivalMs * (1 - TRANSIT);

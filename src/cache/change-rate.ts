/**
 * How fast an answer changes, and how long it may therefore be kept fresh. Pure.
 *
 * What is learned per key is how long the answer was watched, and how many changes were seen meanwhile;
 * the older an observation, the less it weighs. To begin with, the configured lifetime is taken to be right.
 * It is right where every second refresh brings a change: half the mean time between two changes. Where
 * refreshes bring changes more often the lifetime shrinks, where they bring none it stretches.
 */
import type { ChangeRate } from "../types.ts";
import type { Query } from "../query/query.ts";

/** Lifetimes of one kind of answer, in milliseconds. */
export interface LifetimeBounds {
  readonly ttlMs: number;
  readonly ttlMinMs: number;
  readonly ttlMaxMs: number;
}

/** Nothing was seen yet. */
export const UNOBSERVED: ChangeRate = { changes: 0, watchedMs: 0 };

/** What the observations before weigh at each new one. */
const MEMORY = 0.8;
/** Changes per lifetime that are aimed at. */
const CHANGES_PER_LIFETIME = 0.5;
/** What hardly ever changes begins with so many times its configured lifetime. */
const SETTLED = 4;

/**
 * Learns from a refresh.
 * @param elapsedMs since the refresh before
 */
export function learn(
  changeRate: ChangeRate,
  changed: boolean,
  elapsedMs: number,
  bounds: LifetimeBounds,
): ChangeRate {
  // Of what has changed it is only known that it changed at least once: to wait long shows no slow changeRate.
  const longestMs = changed ? lifetimeAt(changeRate, bounds, false) : bounds.ttlMaxMs;
  return {
    changes: changeRate.changes * MEMORY + (changed ? 1 : 0),
    watchedMs: changeRate.watchedMs * MEMORY + Math.min(Math.max(0, elapsedMs), longestMs),
  };
}

/**
 * The lifetime for a changeRate, in milliseconds.
 * @param isSettled whether answers of this kind are known to hardly ever change
 */
export function lifetimeAt(
  changeRate: ChangeRate,
  { ttlMs, ttlMinMs, ttlMaxMs }: LifetimeBounds,
  isSettled: boolean,
): number {
  const expectedMs = (ttlMs * (isSettled ? SETTLED : 1)) / CHANGES_PER_LIFETIME;
  const betweenChangesMs = (expectedMs + changeRate.watchedMs) / (1 + changeRate.changes);
  return Math.min(Math.max(betweenChangesMs * CHANGES_PER_LIFETIME, ttlMinMs), Math.max(ttlMaxMs, ttlMinMs));
}

/** Sales are reported late, but not later than this. */
const SALES_SETTLE_AFTER_MS = 60 * 86_400_000;

/** Whether answers to a query hardly ever change: areas, pictures, sales of a period that is long over. */
export function isSettled(query: Query, now: number): boolean {
  if (query.resource === "areas" || query.kind === "image") return true;
  if (query.kind !== "search" || query.resource !== "sold") return false;
  const last = query.filters.find(([name]) => name === "maxSoldDate")?.[1];
  const { year, month, day } = /^(?<year>\d{4})(?<month>\d\d)(?<day>\d\d)$/.exec(last ?? "")?.groups ?? {};
  return Date.UTC(Number(year), Number(month) - 1, Number(day)) < now - SALES_SETTLE_AFTER_MS;
}

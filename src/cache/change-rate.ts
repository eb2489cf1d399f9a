/**
 * How fast an answer changes, and the lifetime that follows from that. Pure.
 *
 * For each key the cache learns how long it has watched the answer and how many changes it saw; older
 * observations weigh less. A new key starts with the configured lifetime. The target is one change per two
 * refreshes, which is a lifetime of half the mean time between two changes. If more
 * refreshes find a change, the lifetime shrinks; if fewer do, it grows.
 */
import type { ChangeRate } from "../types.ts";
import type { Query } from "../query/query.ts";

/** Limits for the lifetime of one kind of answer, in milliseconds. */
export interface LifetimeBounds {
  readonly ttlMs: number;
  readonly ttlMinMs: number;
  readonly ttlMaxMs: number;
}

/** Before the first observation. */
export const UNOBSERVED: ChangeRate = { changes: 0, watchedMs: 0 };

/** The weight of earlier observations at each new one. */
const MEMORY = 0.8;
/** The target for changes per lifetime. */
const CHANGES_PER_LIFETIME = 0.5;
/** An answer that rarely changes starts with this many times its configured lifetime. */
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
  // The answer changed at least once, perhaps more often. So a long time before the refresh is not evidence of slow changes.
  const longestMs = changed ? lifetimeAt(changeRate, bounds, false) : bounds.ttlMaxMs;
  return {
    changes: changeRate.changes * MEMORY + (changed ? 1 : 0),
    watchedMs: changeRate.watchedMs * MEMORY + Math.min(Math.max(0, elapsedMs), longestMs),
  };
}

/**
 * The lifetime for a change rate, in milliseconds.
 * @param isSettled whether answers of this kind rarely change
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

/** Sales are reported late, but within this time. */
const SALES_SETTLE_AFTER_MS = 60 * 86_400_000;

/** Whether answers to a query rarely change: areas, images, and sales of a period that ended long ago. */
export function isSettled(query: Query, now: number): boolean {
  if (query.resource === "areas" || query.kind === "image") return true;
  if (query.kind !== "search" || query.resource !== "sold") return false;
  const last = query.filters.find(([name]) => name === "maxSoldDate")?.[1];
  const { year, month, day } = /^(?<year>\d{4})(?<month>\d\d)(?<day>\d\d)$/.exec(last ?? "")?.groups ?? {};
  return Date.UTC(Number(year), Number(month) - 1, Number(day)) < now - SALES_SETTLE_AFTER_MS;
}

/**
 * Common parts of the budget tests: how long the upstream is saturated, and which arrivals are
 * against what it counted.
 */
import { expect, onTestFinished } from "vitest";

import { mostWithin, type AgreedWindow } from "./arrivals.ts";
import type { Crowd, Fleet, Replica } from "./fleet.ts";
import { startRedis, type RedisServer } from "./redis.ts";

/** How long an experiment lasts; not for waiting until something is so. */
export const lasting = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

export async function redisForTest(): Promise<RedisServer> {
  const redis = await startRedis();
  onTestFinished(() => redis.close());
  return redis;
}

export const urlOf = ({ port }: { readonly port: number }): string => `redis://127.0.0.1:${port}`;

/** With BUDGET_REPORT set, it prints the numbers, which show how close to the limit they were. */
function report(what: string, numbers: Readonly<Record<string, number>>): void {
  if (process.env["BUDGET_REPORT"] === undefined) return;
  process.stderr.write(`${expect.getState().currentTestName ?? ""}: ${what} ${JSON.stringify(numbers)}\n`);
}

/** No window, wherever it begins, has more arrivals than was agreed. */
export function expectKept(instants: readonly number[], window: AgreedWindow): void {
  const most = mostWithin(instants, window.windowMs);
  report("most within window", { ...window, most, arrivals: instants.length });
  expect(most).toBeLessThanOrEqual(window.limit);
}

/** Answers in the order they came, those since a given number of them. */
const answeredSince = ({ statuses }: Crowd, since: number): number =>
  statuses.slice(since).filter((status) => status === 200).length;

/** Callers are being served now. */
export async function expectServed(crowd: Crowd): Promise<void> {
  const since = crowd.statuses.length;
  await expect.poll(() => answeredSince(crowd, since)).toBeGreaterThan(0);
}

export const startMany = (fleet: Fleet, count: number): Promise<Replica[]> =>
  Promise.all(Array.from({ length: count }, () => fleet.start()));

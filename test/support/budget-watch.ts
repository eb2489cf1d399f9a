/**
 * What the tests of the budget have in common: how long the upstream is saturated, and what is held
 * against what it counted.
 */
import { expect, onTestFinished } from "vitest";

import { mostWithin, utilisation, type AgreedWindow } from "./arrivals.ts";
import { ask } from "./ask.ts";
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

/** Set BUDGET_REPORT to have what was seen written, to tell how close to the limit it was. */
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

/** A stretch of time in which more is wanted than there is. */
interface Stretch {
  readonly windows: number;
  /** Since when, in epoch milliseconds. */
  readonly from: number;
  /** The part of what there is that is used at the least. */
  readonly least: number;
  /** For so much longer than the windows last, a machine that is busy with something else may not have had one. */
  readonly patienceMs: number;
}

/**
 * Resolves once so many windows in a row have been used up, wherever they begin. More than there is has to be
 * wanted all the time: a machine that is busy with something else now and then makes it only later.
 */
export async function expectUsedUp(
  arrivals: () => readonly number[],
  { limit, windowMs }: AgreedWindow,
  { windows, from, least, patienceMs }: Stretch,
): Promise<void> {
  const used = (): number => {
    const most = mostWithin(
      arrivals().filter((at) => at >= from),
      windows * windowMs,
    );
    return most / (limit * windows);
  };
  await expect
    .poll(used, { timeout: from - Date.now() + windows * windowMs + patienceMs })
    .toBeGreaterThanOrEqual(least);
  report("used up", { used: used(), afterMs: Date.now() - from - windows * windowMs });
}

/** How much was used from the first arrival after an instant on, for so many windows. */
export function usedFrom(
  instants: readonly number[],
  window: AgreedWindow,
  from: number,
  windows: number,
): number {
  const first = instants.find((at) => at >= from) ?? from;
  const used = utilisation(instants, window, first, first + windows * window.windowMs);
  report("utilisation", { used, afterMs: first - from });
  return used;
}

/** Resolves when so many wait for a place, in all replicas together. */
export async function expectQueue(replicas: readonly Replica[], waiting: number): Promise<void> {
  const lengthAt = async ({ admin }: Replica): Promise<number> => {
    const { text } = await ask(`${admin}/metrics`);
    const lengths = [...text.matchAll(/^gateway_throttle_queue_length\{.*\} (\d+)$/gm)];
    return lengths.reduce((sum, [, length]) => sum + Number(length), 0);
  };
  await expect
    .poll(async () => {
      const lengths = await Promise.all(replicas.map(lengthAt));
      return lengths.reduce((sum, length) => sum + length, 0);
    })
    .toBeGreaterThanOrEqual(waiting);
}

/** Answers in the order they came, those since a given number of them. */
export const answeredSince = ({ statuses }: Crowd, since: number): number =>
  statuses.slice(since).filter((status) => status === 200).length;

/** Callers are being served now. */
export async function expectServed(crowd: Crowd): Promise<void> {
  const since = crowd.statuses.length;
  await expect.poll(() => answeredSince(crowd, since)).toBeGreaterThan(0);
}

/** By the replicas' own reckoning, what was sent to the upstream, by app and cause. */
export async function spentBy(replicas: readonly Replica[]): Promise<Record<string, number>> {
  const spent: Record<string, number> = {};
  for (const { admin } of replicas) {
    const { text } = await ask(`${admin}/metrics`);
    for (const [, labels = "", value] of text.matchAll(/^gateway_budget_spent_total\{(.*)\} (\d+)$/gm)) {
      spent[labels] = (spent[labels] ?? 0) + Number(value);
    }
  }
  return spent;
}

export const total = (spent: Readonly<Record<string, number>>): number =>
  Object.values(spent).reduce((sum, value) => sum + value, 0);

/** Resolves when a replica has joined those that share the budget. */
export async function expectShared({ admin }: Replica): Promise<void> {
  await expect.poll(async () => Object((await ask(`${admin}/budget`)).json()).api.mode).toBe("shared");
}

/** Resolves when a replica has its Redis (again). */
export async function expectStoreInUse({ admin }: Replica): Promise<void> {
  await expect
    .poll(async () => (await ask(`${admin}/metrics`)).text)
    .toMatch(/breaker_state\{store="redis"\} 0/);
}

export const startMany = (fleet: Fleet, count: number): Promise<Replica[]> =>
  Promise.all(Array.from({ length: count }, () => fleet.start()));

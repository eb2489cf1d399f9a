/** The calls of replicas on a fake clock: the real queue, circuits and Bottleneck before limiters in memory. */
import { onTestFinished } from "vitest";

import { Apps, type ListedApp } from "../../src/ratelimit/apps.ts";
import type { BudgetConfig } from "../../src/ratelimit/budget-options.ts";
import { Budget } from "../../src/ratelimit/origin-budget.ts";
import type { SharedCircuits } from "../../src/ratelimit/circuits/redis-circuits.ts";
import type { RateWindow } from "../../src/usage/rate-window.ts";
import type { Waiting, UpstreamRequest, SendEnd } from "../../src/ratelimit/call-facts.ts";
import { createFakeClock, type FakeClock, promisesSettled } from "./fake-clock.ts";
import { createFakeLimiters, type Limiters } from "./limiters.ts";
import { SILENT } from "./silent-observer.ts";
import { waitingOf } from "./waiting.ts";

export const SECOND = 1_000;
export const MINUTE = 60_000;

export interface SceneOptions extends Partial<Omit<BudgetConfig, "windows">> {
  readonly listed?: readonly ListedApp[];
  readonly windows?: readonly Omit<RateWindow, "name">[];
  readonly clock?: FakeClock;
  readonly limiters?: Limiters;
  readonly shared?: SharedCircuits;
}

export type Scene = ReturnType<typeof createScene>;

export const ANSWERED = "answered";

export function createScene(options: SceneOptions = {}) {
  const { windows = [{ limit: 1_000, windowMs: MINUTE }], clock = fakeTime(), listed = [] } = options;
  const perDay = new Map(listed.flatMap(({ id, perDay: most }) => (most === null ? [] : [[id, most]])));
  const limiters: Limiters = options.limiters ?? createFakeLimiters({ windows, clock, perDay });
  const unlistedApps = { weight: 1, max: 1_000, share: 0.5 };
  const apps = new Apps({ apps: listed, unlistedApps, metrics: { apps: 20 } });
  const [departed, refused]: [string[], string[]] = [[], []];
  const logged: Readonly<Record<string, unknown>>[] = [];
  const config = {
    concurrency: 4,
    spacingMs: 0,
    mode: "enforce" as const,
    reserve: 0.2,
    replicas: 1,
    arrivalMs: SECOND,
    maxCoolOffMs: 5 * MINUTE,
    perDay,
    ...options,
    windows: windows.map((window) => ({ ...window, name: "1m" })),
  };
  const budget = new Budget(
    {
      origin: "api",
      limiter: limiters.join(),
      shared: options.shared,
      apps,
      clock,
      keyVersion: () => 1,
      fraction: () => 0,
      observer: {
        ...SILENT,
        warn: (_message, fields) => void logged.push(fields),
        refused: (app, reason, isEnforced) =>
          void refused.push(`${app}: ${reason}${isEnforced ? "" : ", not enforced"}`),
        departed: (app) => void departed.push(app),
      },
    },
    config,
  );
  /** Starts a call that lasts until the test answers it. */
  function call(app: string, order: Partial<UpstreamRequest> = {}, waiting: Partial<Waiting> = {}) {
    const { promise: end, resolve } = Promise.withResolvers<SendEnd>();
    const startedAt = clock.monotonic();
    let hasStarted = false;
    const full: UpstreamRequest = {
      app,
      cause: "miss",
      resource: "listings",
      query: `${app}?`,
      waiting: { ...waitingOf(), apps: () => [app], ...waiting },
      ...order,
    };
    const result = budget
      .run(full, async (ended) => {
        hasStarted = true;
        ended(await end);
        return ANSWERED;
      })
      .catch((error: unknown) => error);
    return {
      /** Its error, or `answered`. */
      result,
      hasStarted: () => hasStarted,
      /** The upstream answers. */
      answer: (changes?: Partial<SendEnd>) =>
        resolve({ status: 200, arrivedAfterMs: 0, durationMs: clock.monotonic() - startedAt, ...changes }),
    };
  }
  /** A call that is answered at once. @returns its error, or `answered` */
  const ask = async (order: Partial<UpstreamRequest> = {}, end: Partial<SendEnd> = {}): Promise<unknown> => {
    const asked = call(order.app ?? "app", order, order.waiting);
    asked.answer(end);
    await clock.advance(0);
    return await asked.result;
  };
  return {
    budget,
    calls: budget.calls,
    circuits: budget.circuits,
    config,
    clock,
    limiters,
    /** Apps whose calls departed, in order. */
    departed,
    refused,
    logged,
    call,
    ask,
  };
}

/** Apps by their weights. */
export const listedWith = (weights: Readonly<Record<string, number>>): ListedApp[] =>
  Object.entries(weights).map(([id, weight]) => ({ id, weight, perDay: null }));

/** A fake clock that Bottleneck uses, too: until the test ends, it is the clock of the whole process. */
export function fakeTime(letRun = promisesSettled): FakeClock {
  const clock = createFakeClock(undefined, letRun);
  const { setTimeout, clearTimeout, Date: RealDate } = globalThis;
  const isCancel = (value: unknown): value is () => void => typeof value === "function";
  Object.assign(globalThis, {
    setTimeout: (callback: () => void, ms = 0) => clock.after(ms, callback),
    clearTimeout: (timer: unknown) => (isCancel(timer) ? timer() : undefined),
    Date: class extends RealDate {
      static override now = clock.now;
    },
  });
  onTestFinished(() => void Object.assign(globalThis, { setTimeout, clearTimeout, Date: RealDate }));
  return clock;
}

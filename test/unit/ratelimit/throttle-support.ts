import type { Allowance } from "../../../src/ratelimit/allowance.ts";
import type { Terms } from "../../../src/ratelimit/arbiter.ts";
import { createLocalAllowance } from "../../../src/ratelimit/local-allowance.ts";
import { createMemoryLedger } from "../../../src/usage/memory-ledger.ts";
import { createThrottle, type Throttle, type ThrottleOptions } from "../../../src/ratelimit/throttle.ts";
import type { Limit } from "../../../src/ratelimit/windows.ts";
import type { UpstreamRequest, Priority, SendEnd, Waiting } from "../../../src/types.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { waitingOf } from "../../support/waiting.ts";
import { MINUTE, termsOf } from "./arbiter-support.ts";

export const NEVER = Number.POSITIVE_INFINITY;
export const AMPLE: readonly Limit[] = [{ limit: 1_000, windowMs: MINUTE }];
export const ONE_A_MINUTE: readonly Limit[] = [{ limit: 1, windowMs: MINUTE }];

export function waiting(deadlineAt = NEVER, abandoned = new AbortController().signal): Waiting {
  return waitingOf({ deadlineAt, abandoned });
}

/** One who waits for ever, this urgently. */
export function waitingAs(priority: Priority): Waiting {
  return waitingOf({ priority });
}

/** One for whom nobody waits, until somebody does. */
export interface Joined {
  readonly who: Waiting;
  readonly joinedBy: (priority: Priority) => void;
}

export function waitingUntilJoined(): Joined {
  const listeners: (() => void)[] = [];
  let priority: Priority = "refresh";
  return {
    who: {
      ...waitingOf(),
      priority: () => priority,
      onChange: (listen) => void listeners.push(listen),
    },
    joinedBy(joined) {
      priority = joined;
      for (const tell of listeners) tell();
    },
  };
}

function orderOf(who: Waiting = waiting(), changes: Partial<UpstreamRequest> = {}): UpstreamRequest {
  return {
    app: "app",
    cause: "miss",
    resource: "listings",
    query: "?",
    waiting: who,
    ...changes,
  };
}

export type Ended = (end: SendEnd) => void;
export type Job<T> = (ended: Ended) => Promise<T>;

/** How a job's send ends that went and came home at once. */
export const HOME: SendEnd = { status: 200, arrivedAfterMs: 0, durationMs: 0 };

/** A job that comes home at once. */
export const atOnce: Job<void> = async (ended) => ended(HOME);

/** A job that returns this, and comes home at once. */
export function bringing<T>(what: () => T): Job<T> {
  return async (ended) => {
    ended(HOME);
    return what();
  };
}

/** A job that ends when told. */
export interface HeldJob {
  readonly job: Job<void>;
  readonly started: Promise<void>;
  readonly finish: () => void;
  readonly runs: () => number;
}

export function heldJob(end: SendEnd = HOME): HeldJob {
  const begin = Promise.withResolvers<void>();
  const door = Promise.withResolvers<void>();
  let runs = 0;
  return {
    async job(ended) {
      runs += 1;
      begin.resolve();
      await door.promise;
      ended(end);
    },
    started: begin.promise,
    finish: door.resolve,
    runs: () => runs,
  };
}

/** What the throttle reported, in words. */
interface Reports {
  readonly refused: string[];
  readonly waited: number[];
  /** The apps that paid for what departed. */
  readonly paid: string[];
}

export interface Setting {
  readonly throttle: Throttle;
  /** Sends a job of an app that comes in any time. */
  readonly throttled: <T>(job: Job<T>, who?: Waiting, changes?: Partial<UpstreamRequest>) => Promise<T>;
  readonly clock: FakeClock;
  readonly allowance: Allowance;
  readonly reports: Reports;
}

export interface SettingOptions extends Partial<Pick<ThrottleOptions, "concurrency" | "mode">> {
  readonly windows?: readonly Limit[];
  readonly terms?: Partial<Terms>;
  readonly clock?: FakeClock;
  readonly allowance?: Allowance;
}

/** A throttle over the budget of one process. */
export function createSetting(options: SettingOptions = {}): Setting {
  const { windows = AMPLE, concurrency = 4, mode = "enforce", clock = createFakeClock() } = options;
  const named = windows.map((window) => ({ ...window, name: `${window.windowMs}ms` }));
  const terms = { ...termsOf({ app: 1 }, { windows: named }), ...options.terms };
  const bounds = { retentionMs: 7 * 86_400_000, maxRecords: 100_000, now: clock.now };
  const ledger = createMemoryLedger(bounds);
  const allowance =
    options.allowance ?? createLocalAllowance({ origin: "api", terms, ledger, clock, replica: "here" });
  const reports: Reports = { refused: [], waited: [], paid: [] };
  const throttle = createThrottle({
    allowance,
    concurrency,
    mode,
    clock,
    observer: {
      refused: (app, reason, isEnforced) =>
        void reports.refused.push(`${app}: ${reason}${isEnforced ? "" : ", not enforced"}`),
      departed({ app }, waitedMs) {
        reports.waited.push(waitedMs);
        reports.paid.push(app);
      },
    },
  });
  const throttled: Setting["throttled"] = (job, who, changes) =>
    throttle.throttled(orderOf(who, changes), job);
  return { throttle, throttled, clock, allowance, reports };
}

/** How a job ends that should not get its turn: its error. */
export async function errorOf(result: Promise<unknown>): Promise<unknown> {
  return await result.then(
    () => "it ran",
    (error: unknown) => error,
  );
}

/** Lasts as long as a queue of the same kind takes for so many jobs one after the other. */
export async function turnsElsewhere(count: number): Promise<void> {
  const { throttled } = createSetting({ concurrency: 1 });
  await Promise.all(Array.from({ length: count }, () => throttled(atOnce)));
}

/** Lets time pass in steps until the work is done, slowly enough for the queue to keep up. */
export async function advanceUntil(work: Promise<unknown>, clock: FakeClock, stepMs: number): Promise<void> {
  const end = new AbortController();
  void work.finally(() => end.abort()).catch(() => undefined);
  for (;;) {
    await turnsElsewhere(2);
    if (end.signal.aborted) return;
    await clock.advance(stepMs);
  }
}

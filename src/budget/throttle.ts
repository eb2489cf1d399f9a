/**
 * The throttle in front of every upstream call of this process. Bottleneck holds the queue and how many
 * calls are on their way at once; the allowance says when there is a place in the windows, and whose turn
 * it is.
 *
 * What Bottleneck queues are turns, not requests: whoever is first in the fair order when a turn comes and
 * there is a place takes both. So a request can be withdrawn, which Bottleneck's jobs cannot, and one that
 * comes late but has precedence is not behind those that were scheduled before it. Its reservoir and its
 * clustering are not used: they admit up to twice the limit across a refresh, and know one window only.
 */
import Bottleneck from "bottleneck";

import { Problem } from "../errors.ts";
import type { Order, Priority, SendEnd, Throttled } from "../exchange.ts";
import { pause, type Clock } from "../platform/clock.ts";
import type { Allowance, Expectation, Grant, Wish } from "./allowance.ts";
import { queryHash } from "./ledger.ts";
import { createPatience, type Patience } from "./patience.ts";
import { type RefusalReason, refusalOf } from "./refusal.ts";
import { createWaitingLine, type InLine } from "./waiting-line.ts";

/** A place that took longer to come is not used: a send departs soon after it was allowed. */
const LONGEST_ASKING_MS = 1_000;

export interface ThrottleObserver {
  /** A request was refused, or, where the budget is only watched, would have been. */
  readonly refused: (app: string, reason: RefusalReason | "deadline", isEnforced: boolean) => void;
  /** A call departed after waiting, in milliseconds. */
  readonly departed: (order: Order, waitedMs: number) => void;
}

export interface ThrottleOptions {
  readonly allowance: Allowance;
  /** Calls on their way at once. */
  readonly concurrency: number;
  /** `observe`: nothing waits for a place and nothing is refused; what would have been is reported. */
  readonly mode: "enforce" | "observe";
  readonly weightOf: (app: string) => number;
  readonly clock: Clock;
  readonly observer: ThrottleObserver;
}

export interface Throttle {
  readonly throttled: Throttled;
  readonly queueLength: (priority: Priority) => number;
  /** How long a request would wait that came now. */
  readonly expect: (order: Pick<Order, "app" | "priority" | "resource">) => Expectation;
}

interface Waiter extends InLine {
  readonly order: Order;
  readonly patience: Patience;
  readonly depart: (grant: Grant) => Promise<void>;
}

export function createThrottle(options: ThrottleOptions): Throttle {
  const { allowance, concurrency, clock, observer } = options;
  const queue = new Bottleneck({ maxConcurrent: concurrency });
  const line = createWaitingLine<Waiter>();
  const change = createSignal();
  const background = createBackground(concurrency);
  /** Turns ask for places one after the other: a place is for whoever is first then. */
  let asking: Promise<unknown> = Promise.resolve();

  allowance.onChange(() => {
    refuseHopeless();
    change.raise();
  });

  const expectFor = (wish: Pick<Wish, "app" | "priority" | "resource">): Expectation =>
    allowance.expect(wish, line.ahead({ cause: "miss", query: "", ...wish }, options.weightOf));

  /** Waits until somebody in the line may send. @returns nothing where nobody waits any more */
  async function nextDeparture(): Promise<{ waiter: Waiter; grant: Grant } | undefined> {
    for (;;) {
      if (line.isEmpty()) return undefined;
      const changed = change.next();
      const heads = line.heads(background.mayGo);
      const askedAt = clock.steady();
      const taken = heads.length > 0 ? await take(heads) : ({ kind: "wait", forMs: Infinity } as const);
      if (taken.kind === "wait") {
        await pause(clock, taken.forMs, changed);
        continue;
      }
      const waiter = heads.find(({ wish }) => wish === taken.grant.wish);
      const isPrompt = clock.steady() - askedAt <= LONGEST_ASKING_MS;
      if (isPrompt && waiter !== undefined && line.leave(waiter)) return { waiter, grant: taken.grant };
      // Withdrawn while it was being asked for; or this process was stopped, and the place may be stale.
      allowance.giveBack(taken.grant);
    }
  }

  async function take(heads: readonly Waiter[]): ReturnType<Allowance["take"]> {
    const [first] = heads;
    if (options.mode === "observe" && first !== undefined)
      return { kind: "granted", grant: await allowance.takeAnyway(first.wish) };
    return await allowance.take(heads.map(({ wish }) => wish));
  }

  async function turn(): Promise<void> {
    const next = asking.then(nextDeparture);
    asking = next.catch(() => undefined);
    const departure = await next;
    if (departure === undefined) return;
    const { waiter, grant } = departure;
    waiter.patience.stop();
    background.began(waiter.wish.priority);
    await waiter.depart(grant);
    background.ended(waiter.wish.priority);
    change.raise();
  }

  /** Those whose wait has become longer than they can wait. */
  function refuseHopeless(): void {
    if (options.mode === "observe") return;
    for (const { wish, order, patience } of line.all()) {
      const expectation = allowance.expect(wish, { ahead: 0, ownAhead: 0 });
      if (expectation.why !== "cool-off" || clock.now() + expectation.forMs <= order.waiting.deadlineAt())
        continue;
      patience.end(refuse(order.app, expectation));
    }
  }

  function refuse(app: string, expectation: Expectation): Problem {
    const { reason, problem } = refusalOf(expectation, app);
    observer.refused(app, reason, options.mode === "enforce");
    return problem;
  }

  async function throttled<T>(order: Order, job: (ended: (end: SendEnd) => void) => Promise<T>): Promise<T> {
    const expectation = expectFor(order);
    if (clock.now() + expectation.forMs > order.waiting.deadlineAt()) {
      const problem = refuse(order.app, expectation);
      if (options.mode === "enforce") throw problem;
    }
    const { app, priority, cause, resource, text } = order;
    const wish = { app, priority, cause, resource, query: queryHash(text) };
    const arrivedAt = clock.now();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const waiter: Waiter = {
      wish,
      order,
      patience: createPatience(order.waiting, clock, () => refusalOf(expectFor(order), order.app).problem),
      depart: (grant) => {
        observer.departed(order, clock.now() - arrivedAt);
        return run(grant, job).then(resolve, reject);
      },
    };
    if (line.join(waiter)) change.raise();
    queue.schedule(turn).catch((error: unknown) => {
      // Nobody else would tell those who wait.
      for (const { patience } of line.all()) patience.end(asError(error));
    });
    try {
      return await Promise.race([promise, waiter.patience.rejected]);
    } catch (error) {
      if (error instanceof Problem && error.code === "deadline-exceeded" && line.has(waiter))
        observer.refused(app, "deadline", true);
      throw error;
    } finally {
      waiter.patience.stop();
      if (line.leave(waiter)) change.raise();
    }
  }

  /** Runs a job in its place, and sees to it that the place is settled whatever becomes of it. */
  async function run<T>(grant: Grant, job: (ended: (end: SendEnd) => void) => Promise<T>): Promise<T> {
    const startedAt = clock.now();
    let isSettled = false;
    const ended = (end: SendEnd): void => {
      if (!isSettled) allowance.settle(grant, end);
      isSettled = true;
    };
    try {
      return await job(ended);
    } finally {
      const durationMs = clock.now() - startedAt;
      ended({ status: "reset", arrivedAfterMs: durationMs, durationMs });
    }
  }

  return { throttled, queueLength: line.length, expect: expectFor };
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** Something that happens now and then; who waits for it gets a signal of its own, raised the next time. */
function createSignal(): { readonly next: () => AbortSignal; readonly raise: () => void } {
  let controller = new AbortController();
  return {
    next: () => controller.signal,
    raise() {
      const raised = controller;
      controller = new AbortController();
      raised.abort();
    },
  };
}

/** Work that nobody waits for leaves one of the calls at once to those that somebody waits for. */
function createBackground(concurrency: number): {
  readonly mayGo: (priority: Priority) => boolean;
  readonly began: (priority: Priority) => void;
  readonly ended: (priority: Priority) => void;
} {
  const most = Math.max(1, concurrency - 1);
  let onTheirWay = 0;
  return {
    mayGo: (priority) => priority === "interactive" || onTheirWay < most,
    began: (priority) => void (onTheirWay += priority === "interactive" ? 0 : 1),
    ended: (priority) => void (onTheirWay -= priority === "interactive" ? 0 : 1),
  };
}

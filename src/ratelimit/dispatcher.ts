/**
 * The queue in front of every upstream call of an origin. A call starts immediately when nothing waits, a permit is free,
 * and fewer than `budget.concurrency` calls are in flight. Otherwise it joins the fair queue, if its deadline leaves time
 * for the permit and for a usual call.
 *
 * The sender is a Bottleneck job, and there is one at a time: it sends waiting calls in the fair order, until none waits. A
 * call is not a job. So a waiting call can be withdrawn, although a job cannot, an urgent call can overtake others, and the
 * 4 ms of a job, and its 0.6 ms of CPU time, are not paid for each call. Bottleneck's reservoir and clustering are not used,
 * because they admit up to twice the limit across a refresh.
 */
import Bottleneck from "bottleneck";

import { Problem } from "../errors.ts";
import type { UpstreamRequest, Priority } from "../types.ts";
import { appsOf, createAdmission, createLatency, kindsOf } from "./admission.ts";
import {
  announce,
  type Context,
  createSignal,
  departAtOnce,
  type DispatcherConfig,
  type DispatcherOptions,
  type Entry,
  type Job,
  leave,
  send,
  sendWaiting,
  withdraw,
} from "./departures.ts";
import { createFairQueue, type QueueKind } from "./fair-queue.ts";
import type { Expectation } from "./problems.ts";
import { activeApps, createFairness, markSeen, type View, viewOf } from "./scheduler.ts";
import { createInFlight } from "./in-flight.ts";

export interface Dispatcher {
  /** Runs a job when it is its turn. See `Throttled`. */
  readonly run: <T>(request: UpstreamRequest, job: Job<T>) => Promise<T>;
  /** How long a new call would wait. */
  readonly expect: (kind: QueueKind) => Expectation;
  readonly queueLength: (priority: Priority) => number;
  /** What the fair order is based on now. */
  readonly view: () => View;
  readonly configure: (config: DispatcherConfig) => void;
  /** Rejects all waiting calls and all new ones. */
  readonly close: (why: Problem) => void;
}

export function createDispatcher(options: DispatcherOptions, config: DispatcherConfig): Dispatcher {
  const context = createContext(options, config);
  const { queue, change, admission, clock } = context;
  const startSender = createStartSender(context);
  follow(context);
  let closedBecause: Problem | undefined;

  async function run<T>(request: UpstreamRequest, job: Job<T>): Promise<T> {
    if (closedBecause !== undefined) throw closedBecause;
    context.markSeen(appsOf(request));
    refuseRetry(context, request);
    admission.check(request);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const entry: Entry = {
      request,
      enteredAt: clock.now(),
      hopelessSince: undefined,
      isAlive: () => !request.waiting.abandoned.aborted && closedBecause === undefined,
      depart: (permit, probeOf) => send(context, entry, { permit, probeOf }, job).then(resolve, reject),
      reject,
    };
    if (await departAtOnce(context, entry)) return await promise;
    // The limiter may have refused a permit since the first check.
    if (context.config.mode === "enforce") admission.check(request);
    if (closedBecause !== undefined) throw closedBecause;
    const stopWaiting = wait(context, entry);
    startSender();
    return await promise.finally(stopWaiting);
  }

  return {
    run,
    expect: (kind) => admission.expect(kind, { ...kind, question: "", cause: "miss" }),
    queueLength: (priority) =>
      queue.counts().reduce((sum, waiting) => sum + (waiting.priority === priority ? waiting.count : 0), 0),
    view: context.view,
    configure(next) {
      context.config = next;
      change.raise();
    },
    close(why) {
      closedBecause = why;
      for (const entry of queue.entries()) withdraw(context, entry, why);
    },
  };
}

/** @returns a function that starts the sender, if calls wait and it does not run yet */
function createStartSender(context: Context): () => void {
  const bottleneck = new Bottleneck({ maxConcurrent: 1 });
  let isStarted = false;
  return function startSender() {
    if (isStarted || context.queue.isEmpty()) return;
    isStarted = true;
    void bottleneck.schedule(sendWaiting, context).finally(() => {
      isStarted = false;
      // A call may have joined while the sender ended.
      startSender();
    });
  };
}

function createContext(options: DispatcherOptions, config: DispatcherConfig): Context {
  const { limiter, circuits, apps, clock, observer, fraction } = options;
  const [queue, change, latency, fairness] = [
    createFairQueue<Entry>(),
    createSignal(),
    createLatency(options.clock.monotonic),
    createFairness(),
  ];
  const inFlight = createInFlight(() => context.config.concurrency, apps.weightOf);
  const markSeenNow = (seen: Iterable<string>): void => markSeen(fairness, seen, clock.monotonic());
  let [cutOffSince, isCutOff] = [Number.NEGATIVE_INFINITY, false];
  const view = (except?: UpstreamRequest): View => {
    const state = limiter.state();
    if (state.mode === "degraded" && !isCutOff) cutOffSince = clock.monotonic();
    isCutOff = state.mode === "degraded";
    markSeenNow(new Set(state.waitingElsewhere.map(({ app }) => app)));
    const { reserve } = context.config;
    return viewOf({
      state,
      waiting: queue.counts(except && queue.entries().find(({ request }) => request === except)),
      fairness,
      config: { apps, reserve },
      now: clock.monotonic(),
    });
  };
  const admission = createAdmission({
    view,
    circuits,
    latency,
    clock,
    fraction,
    concurrency: () => context.config.concurrency,
    isEnforced: () => context.config.mode === "enforce",
    inFlight: inFlight.count,
    blockedUntil: () => context.blockedUntil,
    isJustCutOff: () => isCutOff && clock.monotonic() < cutOffSince + HOPELESS_MS,
    refused: observer.refused,
  });
  const context: Context = {
    ...options,
    config,
    queue,
    inFlight,
    latency,
    admission,
    view,
    markSeen: markSeenNow,
    active: () => activeApps(fairness, clock.monotonic()),
    change,
    blockedUntil: 0,
    isWatching: false,
  };
  return context;
}

/** Looks at the queue again when the limiter or the circuits have changed. */
function follow(context: Context): void {
  const { limiter, circuits, queue, admission, change } = context;
  limiter.onChange(() => {
    context.blockedUntil = 0;
    change.raise();
  });
  circuits.onChange(() => {
    for (const entry of queue.entries()) {
      const problem = admission.stopped(entry.request);
      if (problem !== undefined) withdraw(context, entry, problem);
    }
    change.raise();
  });
}

/** Refuses a retry that the retry budget does not allow. The caller then gets the error of the first call. */
function refuseRetry({ circuits }: Context, { cause, hasNewCredentials = false }: UpstreamRequest): void {
  if (cause === "retry" && !hasNewCredentials && !circuits.mayRetry())
    throw new Problem("upstream-unavailable", { refusedHere: true, internal: "the retry budget is used up" });
}

/**
 * Puts a call into the queue until it departs, is withdrawn, or its last deadline passes.
 * @returns a function to call when the call has ended
 */
function wait(context: Context, entry: Entry): () => void {
  const { queue, clock, change, admission } = context;
  const { waiting, app } = entry.request;
  let lateProblem: Problem | undefined;
  let cancel = (): void => undefined;

  const enqueue = (): void => {
    queue.put(entry, kindsOf(entry.request));
    watch(context);
    announce(context);
    change.raise();
  };
  const onAbandoned = (): void => withdraw(context, entry, NO_CALLER_WAITS);
  const watchDeadline = (): void => {
    // The deadline moves when other callers join.
    cancel = clock.after(Math.max(0, waiting.deadlineAt() - clock.now()) + 1, () => {
      if (!queue.has(entry)) return;
      if (waiting.deadlineAt() >= clock.now()) return watchDeadline();
      lateProblem = admission.late(entry.request, { app, priority: waiting.priority() });
      withdraw(context, entry, lateProblem);
    });
  };

  enqueue();
  waiting.onChange(() => {
    if (!queue.has(entry)) return;
    context.markSeen(appsOf(entry.request));
    enqueue();
  });
  // A caller whose deadline passes before those of others is refused alone. The last one is refused by the timer above.
  waiting.inQueue((caller) => (queue.has(entry) ? admission.late(entry.request, caller) : lateProblem));
  waiting.abandoned.addEventListener("abort", onAbandoned, { once: true });
  if (waiting.abandoned.aborted) onAbandoned();
  watchDeadline();
  return () => {
    cancel();
    waiting.abandoned.removeEventListener("abort", onAbandoned);
    leave(context, entry);
  };
}

const NO_CALLER_WAITS = new Problem("temporary-reduced-capacity", {
  refusedHere: true,
  internal: "no caller waits any more",
});

/** How often waiting calls are checked. */
const CHECK_EVERY_MS = 500;
/** Most waiting calls in one check: the last ones in the queue, because they wait longest. */
const MOST_CHECKED = 500;
/** A call must be hopeless for this long before it is refused, because Redis may be away only for a moment. */
const HOPELESS_MS = 1_500;

/** Checks the waiting calls at intervals, until there are none. */
function watch(context: Context): void {
  if (context.isWatching) return;
  context.isWatching = true;
  context.clock.after(CHECK_EVERY_MS, () => {
    context.isWatching = false;
    if (context.queue.isEmpty()) return;
    refuseHopeless(context);
    watch(context);
  });
}

/** Refuses calls whose permit is now predicted too late. It was predicted in time when they joined the queue. */
function refuseHopeless(context: Context): void {
  const { queue, admission, clock } = context;
  const [view, now, entries] = [context.view(), clock.monotonic(), queue.entries()];
  const places = new Map<string, number>();
  for (const [index, entry] of entries.entries()) {
    const ahead = kindsOf(entry.request).map(({ app }) => {
      const place = places.get(app) ?? 0;
      places.set(app, place + 1);
      return place;
    });
    if (index < entries.length - MOST_CHECKED) continue;
    const expectation = admission.hopeless(view, entry.request, ahead);
    entry.hopelessSince = expectation && (entry.hopelessSince ?? now);
    if (expectation !== undefined && now - (entry.hopelessSince ?? now) >= HOPELESS_MS)
      withdraw(context, entry, admission.refuse(entry.request, expectation));
  }
}

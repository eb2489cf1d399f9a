/**
 * The queue in front of every upstream call of an origin. A call starts at once when a slot and a permit are free and
 * nothing waits. Otherwise it joins the fair queue, if its permit and the usual duration of a call fit into its
 * deadline.
 *
 * What Bottleneck queues are turns, not calls: the call that is first in the fair order takes the next turn. So a
 * call can be withdrawn, which Bottleneck's jobs cannot, and an urgent call overtakes. Bottleneck's reservoir and its
 * clustering are not used: they admit up to twice the limit across a refresh.
 */
import Bottleneck from "bottleneck";

import { Problem } from "../errors.ts";
import { type Clock, pause } from "../process/clock.ts";
import type { UpstreamRequest, Priority, SendEnd } from "../types.ts";
import { queryHash } from "../usage/ledger.ts";
import { type Admission, appsOf, callOf, createAdmission, kindsOf } from "./admission.ts";
import type { CircuitScope } from "./circuit-breaker.ts";
import type { Circuits } from "./circuits.ts";
import { createFairQueue, type FairQueue, type Head, type QueueKind } from "./fair-queue.ts";
import { createLatency, type Latency } from "./latency.ts";
import type { Limiter, Permit, PermitRequest } from "./limiter.ts";
import type { Expectation, RefusalReason } from "./problems.ts";
import {
  activeApps,
  type AppWeights,
  choose,
  chosen,
  createFairness,
  noticeApps,
  type View,
  viewOf,
} from "./scheduler.ts";
import { createSignal, type Signal } from "./signal.ts";
import { createSlots, type Slots } from "./slots.ts";

interface DispatchObserver {
  /** @param isEnforced whether the call was refused, or only would have been (`budget.mode: observe`) */
  readonly refused: (app: string, reason: RefusalReason | "deadline", isEnforced: boolean) => void;
  /** A call departs after waiting; the app of the request pays. */
  readonly departed: (request: PermitRequest, waitedMs: number) => void;
}

export interface DispatcherConfig {
  /** Calls at once. */
  readonly concurrency: number;
  /** `observe`: nothing waits for a permit and nothing is refused. */
  readonly mode: "enforce" | "observe";
  /** Part of each window that only interactive calls may use. */
  readonly reserve: number;
}

export interface DispatcherOptions {
  readonly limiter: Limiter;
  readonly circuits: Circuits;
  readonly apps: AppWeights;
  /** Changes when the upstream's credentials do. */
  readonly keyVersion: () => number;
  readonly clock: Clock;
  /** From 0 up to 1: jitter of `Retry-After`. */
  readonly fraction: () => number;
  readonly observer: DispatchObserver;
}

/** Sends a call with its permit, and says how that ended. */
type Job<T> = (ended: (end: SendEnd) => void, permit: Permit) => Promise<T>;

export interface Dispatcher {
  /** Runs a job when its turn has come; see `Throttled`. */
  readonly run: <T>(order: UpstreamRequest, job: Job<T>) => Promise<T>;
  /** How long a call that came now would wait. */
  readonly expect: (kind: QueueKind) => Expectation;
  readonly queueLength: (priority: Priority) => number;
  /** What the fair order goes by now. */
  readonly view: () => View;
  readonly configure: (config: DispatcherConfig) => void;
  /** Rejects all calls that wait, and those to come. */
  readonly close: (why: Problem) => void;
}

/** A call that waits. */
interface Entry {
  readonly order: UpstreamRequest;
  readonly enteredAt: number;
  readonly isAlive: () => boolean;
  readonly depart: (permit: Permit, probeOf: readonly CircuitScope[]) => Promise<void>;
  readonly reject: (error: Error) => void;
}

/** What the parts of a dispatcher share. */
interface Context extends DispatcherOptions {
  config: DispatcherConfig;
  readonly queue: FairQueue<Entry>;
  readonly slots: Slots;
  readonly latency: Latency;
  readonly admission: Admission;
  readonly view: () => View;
  readonly noticed: (apps: readonly string[]) => void;
  readonly active: () => ReadonlySet<string>;
  /** A slot or a permit may be free, or the queue has changed. */
  readonly change: Signal;
  /** The limiter said that nobody gets a permit before. */
  blockedUntil: number;
  /** Turns ask for permits one after the other. */
  asking: Promise<unknown>;
}

export function createDispatcher(options: DispatcherOptions, config: DispatcherConfig): Dispatcher {
  const bottleneck = new Bottleneck({ maxConcurrent: config.concurrency });
  const context = createContext(options, config);
  const { queue, change, admission, clock } = context;
  follow(context);
  let closedBecause: Problem | undefined;

  async function run<T>(order: UpstreamRequest, job: Job<T>): Promise<T> {
    if (closedBecause !== undefined) throw closedBecause;
    context.noticed(appsOf(order));
    refuseRetry(context, order);
    admission.check(order);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const entry: Entry = {
      order,
      enteredAt: clock.now(),
      isAlive: () => !order.waiting.abandoned.aborted && closedBecause === undefined,
      depart: (permit, probeOf) => send(context, entry, { permit, probeOf }, job).then(resolve, reject),
      reject,
    };
    if (await departAtOnce(context, entry)) return await promise;
    // By now the limiter may have said that it takes longer.
    if (context.config.mode === "enforce") admission.check(order);
    if (closedBecause !== undefined) throw closedBecause;
    const stopWaiting = wait(context, entry);
    bottleneck.schedule(takeTurn, context).catch(reject);
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
      bottleneck.updateSettings({ maxConcurrent: next.concurrency });
      change.raise();
    },
    close(why) {
      closedBecause = why;
      for (const entry of queue.entries()) withdraw(context, entry, why);
    },
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
  const slots = createSlots(() => context.config.concurrency, apps.weightOf);
  const noticed = (seen: Iterable<string>): void => noticeApps(fairness, seen, clock.monotonic());
  const view = (except?: UpstreamRequest): View => {
    const state = limiter.state();
    noticed(new Set(state.waitingElsewhere.map(({ app }) => app)));
    const { reserve } = context.config;
    return viewOf({
      state,
      waiting: queue.counts(({ order }) => order !== except),
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
    inFlight: slots.inFlight,
    blockedUntil: () => context.blockedUntil,
    refused: observer.refused,
  });
  const context: Context = {
    ...options,
    config,
    queue,
    slots,
    latency,
    admission,
    view,
    noticed,
    active: () => activeApps(fairness, clock.monotonic()),
    change,
    blockedUntil: 0,
    asking: Promise.resolve(),
  };
  return context;
}

/** Asks again when the limiter or the circuits say that the answer may be another one. */
function follow(context: Context): void {
  const { limiter, circuits, queue, admission, change } = context;
  limiter.onChange(() => {
    context.blockedUntil = 0;
    change.raise();
  });
  circuits.onChange(() => {
    for (const entry of queue.entries()) {
      const problem = admission.stopped(entry.order);
      if (problem !== undefined) withdraw(context, entry, problem);
    }
    change.raise();
  });
}

/** A retry that the retry budget does not allow is refused: its caller is told how the first call failed. */
function refuseRetry({ circuits }: Context, { cause }: UpstreamRequest): void {
  if (cause === "retry" && !circuits.mayRetry())
    throw new Problem("upstream-unavailable", { refusedHere: true, internal: "the retry budget is used up" });
}

// ---------------------------------------------------------------- waiting

/**
 * Puts a call into the queue, until it departs, is withdrawn, or its last deadline passes.
 * @returns what to do when it has ended
 */
function wait(context: Context, entry: Entry): () => void {
  const { queue, clock, change, admission } = context;
  const { waiting, app } = entry.order;
  let lateProblem: Problem | undefined;
  let cancel = (): void => undefined;

  const stand = (): void => {
    queue.put(entry, kindsOf(entry.order));
    announce(context);
    change.raise();
  };
  const onAbandoned = (): void => withdraw(context, entry, NOBODY_WAITS);
  const watchDeadline = (): void => {
    // The deadline moves when others join.
    cancel = clock.after(Math.max(0, waiting.deadlineAt() - clock.now()) + 1, () => {
      if (!queue.has(entry)) return;
      if (waiting.deadlineAt() >= clock.now()) return watchDeadline();
      lateProblem = admission.late(entry.order, { app, priority: waiting.priority() });
      withdraw(context, entry, lateProblem);
    });
  };

  stand();
  waiting.onChange(() => {
    if (!queue.has(entry)) return;
    context.noticed(appsOf(entry.order));
    stand();
  });
  // One of several callers whose own deadline passes is refused alone; the last one hears it a moment later.
  waiting.inQueue((caller) => (queue.has(entry) ? admission.late(entry.order, caller) : lateProblem));
  waiting.abandoned.addEventListener("abort", onAbandoned, { once: true });
  if (waiting.abandoned.aborted) onAbandoned();
  watchDeadline();
  return () => {
    cancel();
    waiting.abandoned.removeEventListener("abort", onAbandoned);
    leave(context, entry);
  };
}

const NOBODY_WAITS = new Problem("temporary-reduced-capacity", {
  refusedHere: true,
  internal: "nobody waits any more",
});

function withdraw(context: Context, entry: Entry, why: Error): void {
  leave(context, entry);
  entry.reject(why);
}

function leave(context: Context, entry: Entry): void {
  if (!context.queue.remove(entry)) return;
  announce(context);
  context.change.raise();
}

function announce({ limiter, queue }: Context): void {
  limiter.announce(queue.counts());
}

// ---------------------------------------------------------------- departing

/** Sends a call without Bottleneck, whose timers cost 4 ms, if nothing is in its way. */
async function departAtOnce(context: Context, entry: Entry): Promise<boolean> {
  if (!context.queue.isEmpty()) return false;
  const picked = await pick(
    context,
    kindsOf(entry.order).map((kind) => ({ ...kind, entry })),
  );
  if (picked.kind !== "go") return false;
  void picked.depart();
  return true;
}

/** Waits for a turn, and for the end of the call that gets it. */
async function takeTurn(context: Context): Promise<void> {
  const next = context.asking.then(() => nextDeparture(context));
  context.asking = next.catch(() => undefined);
  const depart = await next;
  await depart?.();
}

/** @returns nothing when no call waits any more */
async function nextDeparture(context: Context): Promise<(() => Promise<void>) | undefined> {
  const { queue, change, clock } = context;
  while (!queue.isEmpty()) {
    // Before looking, so that no change is missed.
    const changed = change.next();
    const picked = await pick(context, queue.heads());
    if (picked.kind === "go") return picked.depart;
    if (picked.kind === "wait")
      await pause(clock, Math.max(1, Math.ceil(picked.until - clock.monotonic())), changed);
  }
  return undefined;
}

type Picked =
  | { readonly kind: "go"; readonly depart: () => Promise<void> }
  | { readonly kind: "wait"; readonly until: number }
  /** Something has changed meanwhile. */
  | { readonly kind: "again" };

interface Candidate extends Head<Entry> {
  readonly probeOf: readonly CircuitScope[];
}

/** Gets a permit for the call that is first in the fair order. */
async function pick(context: Context, heads: readonly Head<Entry>[]): Promise<Picked> {
  const { limiter, config, clock } = context;
  if (config.mode === "enforce" && clock.monotonic() < context.blockedUntil)
    return { kind: "wait", until: context.blockedUntil };
  const passing = candidatesIn(context, heads);
  let { until } = passing;
  let left = passing.candidates;
  for (;;) {
    const view = context.view();
    const choice =
      config.mode === "observe" && left[0] !== undefined
        ? ({ kind: "ask", candidate: left[0], leave: [] } as const)
        : choose(view, left);
    if (choice.kind === "wait") return { kind: "wait", until: Math.min(until, choice.until) };
    const { candidate, leave } = choice;
    if (expired(context, candidate)) return { kind: "again" };
    context.slots.take(candidate.app, candidate.priority);
    context.circuits.reserve(candidate.probeOf);
    const asked = { at: clock.monotonic(), wasQueued: context.queue.has(candidate.entry) };
    const request = requestFor(candidate, leave);
    const acquired =
      config.mode === "observe"
        ? ({ kind: "permit", permit: await limiter.acquireAnyway(request) } as const)
        : await limiter.acquire(request);
    if (acquired.kind === "permit") {
      if (config.mode === "enforce") chosen(view, candidate);
      return await departing(context, candidate, acquired.permit, asked);
    }
    context.slots.free(candidate.app, candidate.priority);
    context.circuits.unreserve(candidate.probeOf);
    until = Math.min(until, acquired.until);
    if (acquired.reason !== "reserved" && acquired.reason !== "per-day") {
      context.blockedUntil = acquired.until;
      return { kind: "wait", until };
    }
    // Another app may leave less, or have calls left today.
    left = left.filter((other) => other !== candidate);
  }
}

/** The calls that slots and circuits let through, and when circuits let others through. */
function candidatesIn(
  { slots, circuits, config, active }: Context,
  heads: readonly Head<Entry>[],
): { readonly candidates: readonly Candidate[]; readonly until: number } {
  let until = Number.POSITIVE_INFINITY;
  const others = { waiting: new Set(heads.map(({ app }) => app)), active: active() };
  const candidates = heads.flatMap((head): Candidate[] => {
    if (!slots.mayTake(head, others)) return [];
    if (config.mode === "observe") return [{ ...head, probeOf: [] }];
    const passage = circuits.passage(callOf(head.entry.order));
    if (!("until" in passage)) return [{ ...head, probeOf: passage.kind === "probe" ? passage.scopes : [] }];
    until = Math.min(until, passage.until);
    return [];
  });
  return { candidates, until };
}

/** Refuses a call that has waited until too little time is left for its answer: it would only cost a permit. */
function expired(context: Context, { app, priority, entry }: Candidate): boolean {
  if (!context.queue.has(entry) || !context.admission.isTooLate(entry.order)) return false;
  withdraw(context, entry, context.admission.late(entry.order, { app, priority }));
  return true;
}

function requestFor({ app, priority, resource, entry }: Candidate, leave: readonly number[]): PermitRequest {
  const { cause, query: hashed } = entry.order;
  return { app, priority, resource, cause, query: queryHash(hashed), leave };
}

/** A permit that took longer to come may be stale by the time the call arrives. */
const LONGEST_ASKING_MS = 1_000;

async function departing(
  context: Context,
  candidate: Candidate,
  permit: Permit,
  asked: { readonly at: number; readonly wasQueued: boolean },
): Promise<Picked> {
  const { circuits, limiter, clock, queue, slots } = context;
  const { entry, probeOf, app, priority } = candidate;
  const isClaimed = probeOf.length === 0 || (await circuits.claim(probeOf));
  const isPrompt = clock.monotonic() - asked.at <= LONGEST_ASKING_MS;
  // The call may have been withdrawn meanwhile.
  const isWanted = entry.isAlive() && queue.has(entry) === asked.wasQueued;
  if (isClaimed && isPrompt && isWanted) {
    leave(context, entry);
    return { kind: "go", depart: () => entry.depart(permit, probeOf) };
  }
  if (isClaimed && probeOf.length > 0) circuits.unclaim(probeOf);
  slots.free(app, priority);
  limiter.release(permit);
  return { kind: "again" };
}

/** Sends a call with its permit, and settles the permit whatever becomes of the call. */
async function send<T>(
  context: Context,
  { order, enteredAt }: Entry,
  { permit, probeOf }: { readonly permit: Permit; readonly probeOf: readonly CircuitScope[] },
  job: Job<T>,
): Promise<T> {
  const { limiter, circuits, clock, latency, observer } = context;
  observer.departed(permit.request, clock.now() - enteredAt);
  if (order.cause !== "retry") circuits.departed();
  const sent = { probeOf, keyVersion: context.keyVersion() };
  const startedAt = clock.monotonic();
  let isSettled = false;
  const settle = (end: SendEnd): void => {
    if (isSettled) return;
    isSettled = true;
    limiter.complete(permit, end);
    if (typeof end.status === "number" && end.status < 500) latency.add(end.durationMs);
    circuits.ended(callOf(order), end, sent);
  };
  try {
    return await job(settle, permit);
  } finally {
    const durationMs = clock.monotonic() - startedAt;
    settle({ status: "reset", arrivedAfterMs: durationMs, durationMs });
    context.slots.free(permit.request.app, permit.request.priority);
    context.change.raise();
  }
}

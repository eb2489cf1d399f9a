/** How calls leave the queue: the choice of the next call, its permit, its departure and its end. */
import { type Clock, pause } from "../process/clock.ts";
import type { UpstreamRequest, SendEnd } from "../types.ts";
import { queryHash } from "../usage/ledger.ts";
import { type Admission, callOf, kindsOf, type Latency } from "./admission.ts";
import type { CircuitScope } from "./circuit-breaker.ts";
import type { Circuits } from "./circuits.ts";
import type { FairQueue, Head } from "./fair-queue.ts";
import type { Acquired, Limiter, Permit, PermitRequest } from "./limiter.ts";
import type { RefusalReason } from "./problems.ts";
import { type AppWeights, choose, recordPermit, type View } from "./scheduler.ts";
import type { InFlight } from "./in-flight.ts";

interface DispatchObserver {
  /** @param isEnforced whether the call was refused, or only would have been (`budget.mode: observe`) */
  readonly refused: (app: string, reason: RefusalReason | "deadline", isEnforced: boolean) => void;
  /** A call departs. It is charged to the app of the request. */
  readonly departed: (request: PermitRequest, waitedMs: number) => void;
}

export interface DispatcherConfig {
  /** Most calls in flight. */
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

/** Sends a call with its permit, and reports its end. */
export type Job<T> = (ended: (end: SendEnd) => void, permit: Permit) => Promise<T>;

/** A call that waits. */
export interface Entry {
  readonly request: UpstreamRequest;
  readonly enteredAt: number;
  /** Since when its permit has been predicted too late. */
  hopelessSince: number | undefined;
  readonly isAlive: () => boolean;
  readonly depart: (permit: Permit, probeOf: readonly CircuitScope[]) => Promise<void>;
  readonly reject: (error: Error) => void;
}

/** What the parts of a dispatcher share. */
export interface Context extends DispatcherOptions {
  config: DispatcherConfig;
  readonly queue: FairQueue<Entry>;
  readonly inFlight: InFlight;
  readonly latency: Latency;
  readonly admission: Admission;
  readonly view: () => View;
  /** Marks apps as active. */
  readonly markSeen: (apps: readonly string[]) => void;
  readonly active: () => ReadonlySet<string>;
  /** Raised when a call has ended, a permit may be free, or the queue has changed. */
  readonly change: Signal;
  /** No app gets a permit before, as the limiter replied. */
  blockedUntil: number;
  /** The timer of the next check of waiting calls is armed. */
  isWatching: boolean;
}

/** Sends a call immediately if it need not wait. It does not use Bottleneck, whose timers take 4 ms. */
export async function departAtOnce(context: Context, entry: Entry): Promise<boolean> {
  if (!context.queue.isEmpty()) return false;
  let departs = false;
  try {
    const heads = kindsOf(entry.request).map((kind) => ({ ...kind, entry }));
    const picked = await pick(context, heads);
    departs = picked.kind === "go";
    if (picked.kind === "go") void picked.depart();
    return departs;
  } finally {
    // While it requested a permit, it counted as in flight. Another call may wait for that room.
    if (!departs) context.change.raise();
  }
}

/** The sender: sends waiting calls one after the other, in the fair order, until none waits. */
export async function sendWaiting(context: Context): Promise<void> {
  for (;;) {
    const depart = await nextDeparture(context).catch((error: Error) => rejectFirst(context, error));
    if (depart === undefined) return;
    void depart();
  }
}

/** Rejects one call after the choice of the next call has failed, so that its caller does not wait for ever. */
async function rejectFirst(context: Context, error: Error): Promise<() => Promise<void>> {
  const [head] = context.queue.heads();
  if (head !== undefined) withdraw(context, head.entry, error);
  return async () => undefined;
}

/** @returns nothing when no call waits any more */
async function nextDeparture(context: Context): Promise<(() => Promise<void>) | undefined> {
  const { queue, change, clock } = context;
  while (!queue.isEmpty()) {
    // Before `pick`, so that no change is missed.
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
  /** Something has changed: pick again. */
  | { readonly kind: "again" };

interface Candidate extends Head<Entry> {
  readonly probeOf: readonly CircuitScope[];
}

/** Gets a permit for the call that is first in the fair order. */
async function pick(context: Context, heads: readonly Head<Entry>[]): Promise<Picked> {
  const { config, clock } = context;
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
    const asked = { at: clock.monotonic(), wasQueued: context.queue.has(candidate.entry) };
    const acquired = await acquire(context, candidate, leave);
    if (acquired.kind === "permit") {
      if (config.mode === "enforce") recordPermit(view, candidate);
      return await departing(context, candidate, acquired.permit, asked);
    }
    until = Math.min(until, acquired.until);
    if (acquired.reason !== "reserved" && acquired.reason !== "per-day") {
      context.blockedUntil = acquired.until;
      return { kind: "wait", until };
    }
    // Another app may have to leave less, or may have calls left today.
    left = left.filter((other) => other !== candidate);
  }
}

/** Requests a permit. The call counts as in flight during the request, and afterwards only if it got the permit. */
async function acquire(
  { limiter, inFlight, circuits, config }: Context,
  candidate: Candidate,
  leave: readonly number[],
): Promise<Acquired> {
  const permitRequest = requestFor(candidate, leave);
  let isGranted = false;
  inFlight.add(candidate.app, candidate.priority);
  circuits.reserve(candidate.probeOf);
  try {
    const acquired: Acquired =
      config.mode === "observe"
        ? { kind: "permit", permit: await limiter.acquireAnyway(permitRequest) }
        : await limiter.acquire(permitRequest);
    isGranted = acquired.kind === "permit";
    return acquired;
  } finally {
    if (!isGranted) {
      inFlight.remove(candidate.app, candidate.priority);
      circuits.unreserve(candidate.probeOf);
    }
  }
}

/** The calls that the limit of calls in flight and the circuits allow now, and when circuits allow others. */
function candidatesIn(
  { inFlight, circuits, config, active }: Context,
  heads: readonly Head<Entry>[],
): { readonly candidates: readonly Candidate[]; readonly until: number } {
  let until = Number.POSITIVE_INFINITY;
  const others = { waiting: new Set(heads.map(({ app }) => app)), active: active() };
  const candidates = heads.flatMap((head): Candidate[] => {
    if (!inFlight.mayAdd(head, others)) return [];
    if (config.mode === "observe") return [{ ...head, probeOf: [] }];
    const passage = circuits.passage(callOf(head.entry.request));
    if (!("until" in passage)) return [{ ...head, probeOf: passage.kind === "probe" ? passage.scopes : [] }];
    until = Math.min(until, passage.until);
    return [];
  });
  return { candidates, until };
}

/** Refuses a call whose deadline leaves no time for its answer. Otherwise it would waste a permit. */
function expired(context: Context, { app, priority, entry }: Candidate): boolean {
  if (!context.queue.has(entry) || !context.admission.isTooLate(entry.request)) return false;
  withdraw(context, entry, context.admission.late(entry.request, { app, priority }));
  return true;
}

function requestFor({ app, priority, resource, entry }: Candidate, leave: readonly number[]): PermitRequest {
  const { cause, query: hashed } = entry.request;
  return { app, priority, resource, cause, query: queryHash(hashed), leave };
}

/** A permit that took longer may expire before the call arrives. */
const LONGEST_ASKING_MS = 1_000;

async function departing(
  context: Context,
  candidate: Candidate,
  permit: Permit,
  asked: { readonly at: number; readonly wasQueued: boolean },
): Promise<Picked> {
  const { circuits, limiter, clock, queue, inFlight } = context;
  const { entry, probeOf, app, priority } = candidate;
  const isClaimed = probeOf.length === 0 || (await circuits.claim(probeOf));
  const isPrompt = clock.monotonic() - asked.at <= LONGEST_ASKING_MS;
  // The call may have been withdrawn.
  const isWanted = entry.isAlive() && queue.has(entry) === asked.wasQueued;
  if (isClaimed && isPrompt && isWanted) {
    leave(context, entry);
    return { kind: "go", depart: () => entry.depart(permit, probeOf) };
  }
  if (isClaimed && probeOf.length > 0) circuits.unclaim(probeOf);
  inFlight.remove(app, priority);
  limiter.release(permit);
  return { kind: "again" };
}

/** Sends a call with its permit, and settles the permit in any case. */
export async function send<T>(
  context: Context,
  { request, enteredAt }: Entry,
  { permit, probeOf }: { readonly permit: Permit; readonly probeOf: readonly CircuitScope[] },
  job: Job<T>,
): Promise<T> {
  const { limiter, circuits, clock, latency, observer } = context;
  observer.departed(permit.request, clock.now() - enteredAt);
  if (request.cause !== "retry") circuits.departed();
  const sent = { probeOf, keyVersion: context.keyVersion() };
  const startedAt = clock.monotonic();
  let isSettled = false;
  const settle = (end: SendEnd): void => {
    if (isSettled) return;
    isSettled = true;
    limiter.complete(permit, end);
    if (typeof end.status === "number" && end.status < 500) latency.add(end.durationMs);
    circuits.ended(callOf(request), end, sent);
  };
  try {
    return await job(settle, permit);
  } finally {
    const durationMs = clock.monotonic() - startedAt;
    settle({ status: "reset", arrivedAfterMs: durationMs, durationMs });
    context.inFlight.remove(permit.request.app, permit.request.priority);
    context.change.raise();
  }
}

export function withdraw(context: Context, entry: Entry, why: Error): void {
  leave(context, entry);
  entry.reject(why);
}

export function leave(context: Context, entry: Entry): void {
  if (!context.queue.remove(entry)) return;
  announce(context);
  context.change.raise();
}

export function announce({ limiter, queue }: Context): void {
  limiter.announce(queue.counts());
}

/** A repeated event. */
export interface Signal {
  /** Aborts when the event happens the next time. */
  readonly next: () => AbortSignal;
  readonly raise: () => void;
}

export function createSignal(): Signal {
  let controller = new AbortController();
  return {
    next: () => controller.signal,
    raise() {
      const raised = controller;
      controller = new AbortController();
      // The default reason is an error with a stack, which costs time.
      raised.abort(null);
    },
  };
}

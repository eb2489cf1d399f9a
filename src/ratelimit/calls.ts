/**
 * Every upstream call of an origin is a job of its Bottleneck. docs/fairness.md explains the rules.
 *
 * A call waits in the fair order, not in Bottleneck: a waiting call can be withdrawn, and an urgent one can overtake others,
 * but a job can do neither. So a job chooses its call when it starts. Bottleneck limits the calls in flight, spaces their
 * starts, counts them, and drains them. Its reservoir and clustering are not used, because they admit up to twice the limit
 * across a refresh.
 */
import Bottleneck from "bottleneck";

import { Problem } from "../errors.ts";
import { atMostEvery } from "../process/clock.ts";
import { type Priority, urgencyOf } from "../telemetry/events.ts";
import { queryHash } from "../usage/ledger-line.ts";
import { Admission } from "./admission.ts";
import type { Circuits } from "./circuits/circuits.ts";
import { earliest } from "./fairness/forecast.ts";
import { isBefore, type Rank, rankOf } from "./fairness/order.ts";
import type { WaitingCall } from "./fairness/promises.ts";
import type { Situation } from "./fairness/shares.ts";
import type { Limiter, Permit } from "./limiter.ts";
import type { PartOptions } from "./budget-options.ts";
import { type AppCall, chargesOf, type Send, type SendEnd, type UpstreamRequest } from "./call-facts.ts";

type CallsOptions = PartOptions & { readonly circuits: Circuits };

/** A call that waits. */
interface Entry extends WaitingCall {
  readonly send: (permit: Permit) => Promise<unknown>;
  readonly reject: (error: Error) => void;
  /** The problem of the last caller, whose deadline has passed. */
  late?: Problem;
}

/** The call that goes next, and the app that is charged for it. */
interface Head extends AppCall {
  readonly entry: Entry;
  readonly rank: Rank;
}

/** Permits may be free earlier than expected, so calls that wait are looked at in this interval. */
const LOOK_EVERY_MS = 500;

/** The limiter may know calls that the forecast does not know. After a refusal, it is asked again at the latest after this time. */
const ASK_AGAIN_MS = 100;

const NO_CALLER_WAITS = new Problem("temporary-reduced-capacity", {
  refusedHere: true,
  internal: "no caller waits any more",
});

/** The calls of an origin: each is asked for, waits or is refused, gets a permit, is sent and settled. */
export class Calls {
  readonly #options: CallsOptions;
  readonly #now: () => number;
  readonly #waiting = new Set<Entry>();
  /** The apps that pay for the calls in flight. */
  readonly #inFlight: string[] = [];
  readonly admission: Admission;
  readonly #bottleneck = new Bottleneck({ rejectOnDrop: false });
  #closedBecause: Problem | undefined;
  /** A job is to choose a call, or is choosing. There is at most one. Each call that departs starts the next job. */
  #hasJob = false;
  #cancelNext = (): void => undefined;
  /** A job starts as soon as the present step has ended. */
  #isStarting = false;
  /** Before this instant, no call that waits can go. */
  #nextAt = Number.POSITIVE_INFINITY;
  /** Limited to once per `LOOK_EVERY_MS`, because jobs may start more often, for example when other replicas have news. */
  readonly #look: () => void;

  constructor(options: CallsOptions) {
    this.#options = options;
    this.#now = options.clock.monotonic;
    this.#look = atMostEvery(this.#now, () => this.#refuseStopped(), LOOK_EVERY_MS);
    this.admission = new Admission({ ...options, waiting: this.#waiting });
    this.configure();
    options.limiter.onChange(() => this.#startJob());
    options.circuits.changed = () => {
      for (const entry of this.#waiting)
        if (options.circuits.stopOf(entry.request) !== undefined) this.#refuse(entry);
      this.#startJob();
    };
  }

  /** Sends a call when it is its turn. See `Throttled`. */
  async run<T>(request: UpstreamRequest, send: Send<T>): Promise<T> {
    if (this.#closedBecause !== undefined) throw this.#closedBecause;
    const { cause, hasNewCredentials = false } = request;
    // The caller then gets the error of the first call.
    if (cause === "retry" && !hasNewCredentials && !this.#options.circuits.mayRetry())
      throw new Problem("upstream-unavailable", {
        refusedHere: true,
        internal: "the retry budget is used up",
      });
    const dueAt = this.admission.plan(request, this.admission.promises.take(request));
    if (dueAt instanceof Problem) throw dueAt;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const entry: Entry = {
      request,
      dueAt,
      enteredAt: this.#now(),
      send: (permit) => this.#send(entry, permit, send).then(resolve, reject),
      reject,
    };
    return await promise.finally(this.#wait(entry));
  }

  waiting(priority: Priority): number {
    return [...this.#waiting].filter(({ request }) => request.waiting.priority() === priority).length;
  }

  inFlight(): number {
    return this.#bottleneck.counts().EXECUTING ?? 0;
  }

  /** Applies new settings. */
  configure(): void {
    const { windows, spacingMs, concurrency } = this.#options.config();
    const shortest = windows.reduce((a, b) => (b.windowMs < a.windowMs ? b : a));
    const minTime = Math.min(spacingMs, shortest.windowMs / shortest.limit / 2);
    this.#bottleneck.updateSettings({ maxConcurrent: concurrency, minTime });
    this.#startJob();
  }

  /** Rejects all waiting calls and all new ones. Resolves when the calls in flight have ended. */
  async stop(why: Problem): Promise<void> {
    if (this.#closedBecause !== undefined) return;
    this.#closedBecause = why;
    this.#cancelNext();
    for (const entry of this.#waiting) this.#withdraw(entry, why);
    await this.#bottleneck.stop({ dropWaitingJobs: true });
  }

  #isObserving(): boolean {
    return this.#options.config().mode === "observe";
  }

  // A call waits.

  /** Lets a call wait until it departs, is withdrawn, or its last deadline passes. @returns a function to stop that */
  #wait(entry: Entry): () => void {
    const { request } = entry;
    const { waiting: callers } = request;
    let cancel = (): void => undefined;
    const onAbandoned = (): void => this.#withdraw(entry, NO_CALLER_WAITS);
    const watchDeadline = (): void => {
      // The deadline moves when other callers join.
      cancel = this.#options.clock.after(Math.max(0, this.admission.leftMs(request)) + 1, () => {
        if (!this.#waiting.has(entry)) return;
        if (this.admission.leftMs(request) >= 0) return watchDeadline();
        this.#withdrawLate(entry, request.app);
      });
    };
    this.#enterQueue(entry);
    callers.onChange(() => {
      if (this.#waiting.has(entry)) this.#enterQueue(entry);
    });
    // A caller is refused alone if its deadline passes before those of other callers. The timer above refuses the last one.
    callers.inQueue((caller) =>
      this.#waiting.has(entry) ? this.admission.late(request, caller) : entry.late,
    );
    callers.abandoned.addEventListener("abort", onAbandoned, { once: true });
    if (callers.abandoned.aborted) onAbandoned();
    watchDeadline();
    return () => {
      cancel();
      callers.abandoned.removeEventListener("abort", onAbandoned);
    };
  }

  /** Less urgent calls may lose their permits to the call. Their callers learn it at once. */
  #enterQueue(entry: Entry): void {
    this.#waiting.add(entry);
    this.admission.promises.tell();
    const urgency = urgencyOf(entry.request.waiting.priority());
    for (const other of this.#waiting)
      if (urgencyOf(other.request.waiting.priority()) > urgency) this.#refuse(other);
    this.#startJob();
  }

  /** Refuses a waiting call if it would get its permit too late. */
  #refuse(entry: Entry): void {
    const planned = this.admission.plan(entry.request);
    if (planned instanceof Problem) this.#withdraw(entry, planned);
  }

  #withdrawLate(entry: Entry, app: string): void {
    entry.late = this.admission.late(entry.request, { app, priority: entry.request.waiting.priority() });
    this.#withdraw(entry, entry.late);
  }

  /** Rejects a call if it still waits, so other calls may go earlier. */
  #withdraw(entry: Entry, why: Error): void {
    if (!this.#leaveQueue(entry)) return;
    entry.reject(why);
    this.#startJob();
  }

  /** @returns whether the call was still waiting */
  #leaveQueue(entry: Entry): boolean {
    const wasWaiting = this.#waiting.delete(entry);
    if (wasWaiting) this.admission.promises.tell();
    return wasWaiting;
  }

  // A permit may be free.

  /** Starts jobs at the end of the present step, because many calls may come or leave in one step. */
  #startJob(): void {
    if (this.#isStarting) return;
    this.#isStarting = true;
    queueMicrotask(() => {
      this.#isStarting = false;
      if (this.#closedBecause !== undefined) return;
      this.#look();
      // Two spacings: a job may still wait for its start, and the next job starts one spacing after it.
      followClock(this.#bottleneck, 2 * this.#options.config().spacingMs);
      this.#nextAt = Number.POSITIVE_INFINITY;
      if (!this.#hasJob && this.#waiting.size > 0) {
        this.#hasJob = true;
        void this.#bottleneck.schedule(() => this.#job());
      }
      this.#wake();
    });
  }

  /** Starts jobs again at the instant at which a permit will be free. */
  #wake(): void {
    this.#cancelNext();
    if (this.#waiting.size === 0) return;
    const delayMs = Math.min(LOOK_EVERY_MS, Math.max(1, Math.ceil(this.#nextAt - this.#now())));
    this.#cancelNext = this.#options.clock.after(delayMs, () => this.#startJob());
  }

  /** Refuses calls whose wait has become too long, because Redis is away or a probe takes long. */
  #refuseStopped(): void {
    const isAway = !this.#isObserving() && this.admission.isRedisAway();
    for (const entry of this.#waiting)
      if (isAway || this.#options.circuits.stopOf(entry.request)?.mayWait === false) this.#refuse(entry);
  }

  /** Chooses the call that goes next, and lasts as long as this call. */
  async #job(): Promise<void> {
    const call = await this.#departNext().finally(() => (this.#hasJob = false));
    if (call === undefined) return this.#wake();
    this.#startJob();
    await call.ended;
    this.#startJob();
  }

  /** Sends the next call, if one gets a permit. */
  async #departNext(): Promise<{ readonly ended: Promise<unknown> } | undefined> {
    const { limiter, circuits } = this.#options;
    /** Apps that may send nothing now, although others may. */
    const refused = new Set<string>();
    for (let next = this.#next(refused); next !== undefined; next = this.#next(refused)) {
      const { entry, app } = next;
      if (this.admission.isLate(entry)) {
        this.#withdrawLate(entry, app);
        continue;
      }
      const acquired = await this.#acquire(next);
      // From here to the call's departure nothing may be awaited: the call may have been withdrawn until here.
      if (acquired.kind === "permit") {
        if (circuits.stopOf(entry.request) === undefined && this.#leaveQueue(entry))
          return { ended: entry.send(acquired.permit) };
        limiter.release(acquired.permit);
        continue;
      }
      if (acquired.reason !== "per-day") {
        this.#nextAt = Math.min(this.#nextAt, this.#now() + ASK_AGAIN_MS);
        break;
      }
      // Another app may have calls left today.
      refused.add(nameOf(next));
    }
    return undefined;
  }

  /**
   * The first waiting call that may go now, in the order of fairness/order.ts.
   * @param refused the names of calls that may not go
   */
  #next(refused: ReadonlySet<string>): Head | undefined {
    if (this.#waiting.size === 0) return undefined;
    const situation = this.admission.situation();
    let first: Head | undefined;
    // Of the calls with the same name, the one that waits longest is first.
    const seen = new Set(refused);
    for (const entry of this.#waiting) {
      const stop = this.#options.circuits.stopOf(entry.request);
      if (stop !== undefined) this.#nextAt = Math.min(this.#nextAt, stop.until);
      for (const charge of stop === undefined ? chargesOf(entry.request) : []) {
        if (seen.has(nameOf(charge))) continue;
        seen.add(nameOf(charge));
        if (!this.#isObserving() && !this.#mayGo(charge, entry, situation)) continue;
        const rank = rankOf(charge, entry.dueAt, situation);
        if (first === undefined || isBefore(rank, first.rank)) first = { ...charge, entry, rank };
      }
    }
    return first;
  }

  /** Whether a call can go now, as far as this process knows. */
  #mayGo(call: AppCall, { dueAt }: Entry, situation: Situation): boolean {
    const { now, turns } = situation;
    const { concurrency } = this.#options.config();
    // Background work, and apps beyond their share of the calls in flight, leave room for one more.
    const own = this.#inFlight.filter((app) => app === call.app).length;
    const share = (concurrency * turns.of(call.app)) / turns.window.limit;
    const isFirst = call.priority === "interactive" && own < share;
    if (!isFirst && this.#inFlight.length >= Math.max(1, concurrency - 1)) return false;
    const at = earliest(situation, call, this.admission.promises.overdue(Math.min(now, dueAt)));
    if (at > now) this.#nextAt = Math.min(this.#nextAt, at);
    return at <= now;
  }

  #acquire({ app, priority, entry }: Head): ReturnType<Limiter["acquire"]> {
    const { resource, cause, query } = entry.request;
    const request = { app, priority, resource, cause, query: queryHash(query) };
    return this.#options.limiter.acquire({ ...request, ignoresLimits: this.#isObserving() });
  }

  /** Sends a call with its permit, and settles the permit in any case. */
  async #send<T>({ request, enteredAt }: Entry, permit: Permit, send: Send<T>): Promise<T> {
    const { apps, circuits, limiter, observer } = this.#options;
    const ended = circuits.begin(request);
    const startedAt = this.#now();
    let isSettled = false;
    const settle = (end: SendEnd): void => {
      if (isSettled) return;
      isSettled = true;
      limiter.complete(permit, end);
      if (typeof end.status === "number" && end.status < 500) this.admission.answered(end.durationMs);
      ended(end);
    };
    const { app } = permit.request;
    this.#inFlight.push(app);
    observer.departed(apps.labelOf(app), request.cause, startedAt - enteredAt);
    try {
      return await send(settle, permit);
    } finally {
      const durationMs = this.#now() - startedAt;
      settle({ status: "reset", arrivedAfterMs: durationMs, durationMs });
      this.#inFlight.splice(this.#inFlight.indexOf(app), 1);
    }
  }
}

/**
 * Bottleneck spaces the starts by the time of day. If this time is set back, it starts no job until the old time is reached again.
 * So the start that it has planned is moved closer.
 * @param mostMs the longest time until the next start
 */
function followClock(bottleneck: Bottleneck, mostMs: number): void {
  const store: { readonly _nextRequest: number } = Reflect.get(bottleneck, "_store");
  const { _nextRequest: nextAt } = store;
  Reflect.set(store, "_nextRequest", Math.min(nextAt, Date.now() + mostMs));
}

const nameOf = ({ app, priority }: AppCall): string => `${priority} ${app}`;

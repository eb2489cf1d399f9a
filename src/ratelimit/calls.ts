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
import { PRIORITIES, type Priority } from "../telemetry/events.ts";
import { queryHash } from "../usage/ledger-line.ts";
import { Admission, type CallsConfig, type CallsOptions } from "./admission.ts";
import { isOwed, type Placed, type WaitingCall } from "./fairness/places.ts";
import type { Limiter, Permit } from "./limiter.ts";
import { type AppCall, chargesOf, type Send, type SendEnd, type UpstreamRequest } from "./throttled.ts";

/** A call that waits. */
interface Entry extends WaitingCall {
  readonly enteredAt: number;
  readonly send: (permit: Permit) => Promise<unknown>;
  readonly reject: (error: Error) => void;
  /** The problem of the last caller, whose deadline has passed. */
  late?: Problem;
}

/** A waiting call that may be charged to this app. */
interface Head extends AppCall {
  readonly entry: Entry;
}

/** The first waiting calls are planned again at this interval, and this many of them. */
const LOOK_EVERY_MS = 500;
const MOST_LOOKED_AT = 20;

const NO_CALLER_WAITS = new Problem("temporary-reduced-capacity", {
  refusedHere: true,
  internal: "no caller waits any more",
});

/** The calls of an origin: each is asked for, waits or is refused, gets a permit, is sent and settled. */
export class Calls {
  readonly #options: CallsOptions;
  readonly #now: () => number;
  readonly #waiting = new Set<Entry>();
  /** The permits of the calls in flight. */
  readonly #inFlight = new Set<Permit>();
  readonly admission: Admission;
  readonly #bottleneck = new Bottleneck({ rejectOnDrop: false });
  #closedBecause: Problem | undefined;
  /** Jobs that have not started. */
  #jobs = 0;
  /** Jobs choose one after the other. */
  #choosing: Promise<unknown> = Promise.resolve();
  #cancelNext = (): void => undefined;
  /** Jobs start as soon as the present step has ended. */
  #isStarting = false;
  #lookAt = 0;

  constructor(options: CallsOptions, config: CallsConfig) {
    this.#options = options;
    this.#now = options.clock.monotonic;
    this.admission = new Admission(options, config, this.#waiting, this.#inFlight);
    this.configure(config);
    options.limiter.onChange(() => {
      this.admission.blockedUntil = 0;
      this.#startJobs();
    });
    options.circuits.onChange(() => {
      for (const entry of this.#waiting)
        // Skip a call whose instant has come, unless a circuit stops it: its place stays, and each plan looks at all calls.
        if (entry.at > this.#now() || options.circuits.stopOf(entry.request) !== undefined)
          this.#placeAgain(entry, entry);
      this.#startJobs();
    });
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
    const place = this.admission.plan(request, this.admission.places.ask(request));
    if (place instanceof Problem) throw place;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const entry: Entry = {
      request,
      ...place,
      enteredAt: this.#options.clock.now(),
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

  configure(next: CallsConfig): void {
    this.admission.config = next;
    this.admission.blockedUntil = 0;
    this.#bottleneck.updateSettings({ maxConcurrent: next.concurrency, minTime: this.#spacingMs() });
    this.#startJobs();
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
    return this.admission.config.mode === "observe";
  }

  #spacingMs(): number {
    const { windows, spacingMs } = this.admission.config;
    const shortest = windows.reduce((a, b) => (b.windowMs < a.windowMs ? b : a));
    return Math.min(spacingMs, shortest.windowMs / shortest.limit / 2);
  }

  // A call waits.

  /** Lets a call wait until it departs, is withdrawn, or its last deadline passes. @returns a function to stop that */
  #wait(entry: Entry): () => void {
    const { request } = entry;
    const { waiting: callers } = request;
    let cancel = (): void => undefined;
    const onAbandoned = (): void => {
      if (this.#waiting.has(entry)) this.#withdraw(entry, NO_CALLER_WAITS);
    };
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
      if (!this.#waiting.has(entry)) return;
      if (entry.at > this.#now()) this.#placeAgain(entry, entry);
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

  /** Less urgent calls may lose their places to the call. Their callers learn it at once. */
  #enterQueue(entry: Entry): void {
    this.#waiting.add(entry);
    this.admission.places.tell();
    const urgency = urgencyOf(entry);
    for (const other of this.#waiting)
      if (urgencyOf(other) > urgency && other.at >= entry.at && other.at > this.#now())
        this.#placeAgain(other);
    this.#startJobs();
  }

  /** Plans a waiting call again. The parameters are those of `Admission.plan`. */
  #placeAgain(entry: Entry, kept?: Placed, notBefore?: number): void {
    if (!this.#waiting.has(entry)) return;
    const place = this.admission.plan(entry.request, kept, notBefore);
    if (place instanceof Problem) return this.#withdraw(entry, place);
    entry.at = place.at;
    entry.placedAt = place.placedAt;
  }

  #withdrawLate(entry: Entry, app: string): void {
    const priority = entry.request.waiting.priority();
    entry.late = this.admission.late(entry.request, { app, priority });
    this.#withdraw(entry, entry.late);
  }

  /** Rejects a waiting call, so other calls may go earlier. */
  #withdraw(entry: Entry, why: Error): void {
    this.#leaveQueue(entry);
    entry.reject(why);
    this.#startJobs();
  }

  #leaveQueue(entry: Entry): void {
    if (this.#waiting.delete(entry)) this.admission.places.tell();
  }

  // Its instant has come.

  /** Starts jobs at the end of the present step, because many calls may come or leave in one step. */
  #startJobs(): void {
    if (this.#isStarting) return;
    this.#isStarting = true;
    queueMicrotask(() => {
      this.#isStarting = false;
      if (this.#closedBecause === undefined) this.#schedule();
    });
  }

  /** Schedules jobs for the calls whose instant has come. */
  #schedule(): void {
    this.#lookAhead();
    const most = Math.min(this.admission.config.concurrency, this.#due().length);
    for (; this.#jobs < most; this.#jobs++) void this.#bottleneck.schedule(() => this.#job());
    this.#wake();
  }

  #due(): Entry[] {
    return [...this.#waiting].filter(({ at }) => at <= this.#now());
  }

  /** Permits may be free earlier than planned: plans the next call again, and at intervals those after it. */
  #lookAhead(): void {
    const now = this.#now();
    const isTime = now >= this.#lookAt;
    if (isTime) this.#lookAt = now + LOOK_EVERY_MS;
    if (this.#isObserving() || (!isTime && this.#due().length > 0)) return;
    const sorted = [...this.#waiting].toSorted((a, b) => a.at - b.at);
    for (const entry of sorted.slice(0, isTime ? MOST_LOOKED_AT : 1)) this.#placeAgain(entry, entry);
  }

  /** Starts jobs again when the instant of a call comes, or when it is time to look ahead. */
  #wake(): void {
    this.#cancelNext();
    if (this.#waiting.size === 0) return;
    const now = this.#now();
    const instants = [this.admission.blockedUntil, ...Array.from(this.#waiting, ({ at }) => at)];
    const next = Math.min(this.#lookAt, ...instants.filter((at) => at > now));
    this.#cancelNext = this.#options.clock.after(Math.max(1, Math.ceil(next - now)), () => this.#startJobs());
  }

  /** Chooses the call that goes next, and lasts as long as this call. */
  async #job(): Promise<void> {
    this.#jobs--;
    const chosen = this.#choosing.then(() => this.#departNext());
    this.#choosing = chosen.catch(() => undefined);
    const call = await chosen;
    if (call === undefined) return this.#wake();
    this.#startJobs();
    await call.ended;
    this.#startJobs();
  }

  /** Sends the next call, if one gets a permit. */
  async #departNext(): Promise<{ readonly ended: Promise<unknown> } | undefined> {
    const { limiter, clock, circuits } = this.#options;
    /** Apps that may send nothing now, although others may. */
    const refused = new Set<string>();
    for (let next = this.#next(refused); next !== undefined; next = this.#next(refused)) {
      const { entry, app } = next;
      const stop = circuits.stopOf(entry.request);
      if (stop !== undefined) {
        this.#placeAgain(entry, entry, Math.max(stop.until, this.#now() + 1));
        continue;
      }
      if (!this.admission.hasTime(entry.request, clock.now() > entry.enteredAt)) {
        this.#withdrawLate(entry, app);
        continue;
      }
      const acquired = await this.#acquire(next);
      // From here to the call's departure nothing may be awaited: the call may have been withdrawn until here.
      if (acquired.kind === "permit") {
        if (this.#waiting.has(entry) && circuits.stopOf(entry.request) === undefined) {
          this.#leaveQueue(entry);
          return { ended: entry.send(acquired.permit) };
        }
        limiter.release(acquired.permit);
        continue;
      }
      const { reason, until } = acquired;
      // Another app may have to leave less, or may have calls left today.
      const isOfApp = reason === "reserved" || reason === "per-day";
      if (isOfApp) refused.add(nameOf(next));
      else this.admission.blockedUntil = until;
      if (isOfApp && !chargesOf(entry.request).every((charge) => refused.has(nameOf(charge)))) continue;
      for (const one of reason === "redis-away" ? this.#waiting : [entry])
        this.#placeAgain(one, isOwed(one) ? one : undefined, until);
    }
    return undefined;
  }

  /**
   * Of the calls whose instant has come, the first that may go now. Calls go by priority, then by the part of its share that
   * the app has used, in the shortest window first.
   * @param refused the names of calls that may not go
   */
  #next(refused: ReadonlySet<string>): Head | undefined {
    const due = this.#due();
    const isBlocked = this.#now() < this.admission.blockedUntil && !this.#isObserving();
    if (due.length === 0 || isBlocked) return undefined;
    const { inFlight, windows } = this.admission.situation();
    const shortestFirst = windows.toSorted((a, b) => a.window.windowMs - b.window.windowMs);
    const { limit, remaining } = inFlight.window;
    const heads = due.flatMap((entry) => chargesOf(entry.request).map((charge) => ({ ...charge, entry })));
    const ranked = heads.flatMap((head) => {
      const { app, priority, entry } = head;
      // Background work, and apps beyond their share, leave room for one more call in flight.
      const isFirst = priority === "interactive" && inFlight.usedBy(app) < inFlight.of(app);
      const hasRoom = remaining > (isFirst ? 0 : Math.min(1, limit - 1));
      if (refused.has(nameOf(head)) || !(hasRoom || this.#isObserving())) return [];
      const usedParts = shortestFirst.flatMap((shares) => shares.usedParts(app));
      return { head, rank: [PRIORITIES.indexOf(priority), ...usedParts, entry.at] };
    });
    let [first] = ranked;
    for (const one of ranked) if (first === undefined || isBefore(one.rank, first.rank)) first = one;
    return first?.head;
  }

  #acquire({ app, priority, entry }: Head): ReturnType<Limiter["acquire"]> {
    const { limiter } = this.#options;
    const { resource, cause, query } = entry.request;
    const request = { app, priority, resource, cause, query: queryHash(query) };
    if (this.#isObserving()) return limiter.acquire({ ...request, leave: [], ignoresLimits: true });
    return limiter.acquire({ ...request, leave: this.admission.leave(entry, app) });
  }

  /** Sends a call with its permit, and settles the permit in any case. */
  async #send<T>({ request, enteredAt }: Entry, permit: Permit, send: Send<T>): Promise<T> {
    const { apps, circuits, limiter, observer, clock } = this.#options;
    const sent = circuits.begin(request);
    const startedAt = this.#now();
    let isSettled = false;
    const settle = (end: SendEnd): void => {
      if (isSettled) return;
      isSettled = true;
      limiter.complete(permit, end);
      if (typeof end.status === "number" && end.status < 500) this.admission.answered(end.durationMs);
      circuits.ended(request, end, sent);
    };
    this.#inFlight.add(permit);
    observer.departed(apps.labelOf(permit.request.app), request.cause, clock.now() - enteredAt);
    if (request.cause !== "retry") circuits.departed();
    try {
      return await send(settle, permit);
    } finally {
      const durationMs = this.#now() - startedAt;
      settle({ status: "reset", arrivedAfterMs: durationMs, durationMs });
      this.#inFlight.delete(permit);
    }
  }
}

/** Compares the first numbers that differ. */
function isBefore(rank: readonly number[], other: readonly number[]): boolean {
  const index = rank.findIndex((value, at) => value !== other[at]);
  return index >= 0 && (rank[index] ?? 0) < (other[index] ?? 0);
}

function nameOf({ app, priority }: AppCall): string {
  return `${priority} ${app}`;
}

function urgencyOf({ request }: Entry): number {
  return PRIORITIES.indexOf(request.waiting.priority());
}

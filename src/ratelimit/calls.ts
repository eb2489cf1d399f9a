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
import type { Clock } from "../process/clock.ts";
import { PRIORITIES, type Priority, type RefusalReason } from "../telemetry/events.ts";
import { queryHash } from "../usage/ledger-line.ts";
import { Admission, callOf } from "./admission.ts";
import type { Circuits } from "./circuits/circuits.ts";
import { dayFreeAt } from "./fairness/calendar.ts";
import { FairOrder, type Head } from "./fairness/order.ts";
import { Places, type WaitingCall } from "./fairness/places.ts";
import { type AppRules, Shares, type Situation } from "./fairness/shares.ts";
import { InFlight } from "./in-flight.ts";
import type { Limiter, Permit, PermitRequest } from "./limiter.ts";
import type { Expectation } from "./refusals.ts";
import {
  appsOf,
  type CallKind,
  kindsOf,
  type SendEnd,
  type SendPermit,
  type UpstreamRequest,
} from "./throttled.ts";

export interface CallsConfig {
  /** Most calls in flight. */
  readonly concurrency: number;
  /** The shortest time between the starts of two calls, unless the budget allows more calls. */
  readonly spacingMs: number;
  /** `observe`: nothing waits for a permit, and only circuits refuse calls. */
  readonly mode: "enforce" | "observe";
  /** Part of each window that only interactive calls may use. */
  readonly reserve: number;
  /** How many replicas refuse calls. */
  readonly replicas: number;
}

export interface CallsOptions {
  readonly limiter: Limiter;
  readonly circuits: Circuits;
  readonly apps: AppRules;
  /** Changes when the upstream's credentials do. */
  readonly keyVersion: () => number;
  readonly clock: Clock;
  /** From 0 up to 1: jitter of `Retry-After`. */
  readonly fraction: () => number;
  readonly observer: {
    /** @param isEnforced whether the call was refused, or only would have been (`budget.mode: observe`) */
    readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
    /** A call departs. It is charged to the app of the request. */
    readonly departed: (request: PermitRequest, waitedMs: number) => void;
  };
}

/** Sends a call with its permit, and reports its end. */
type Send<T> = (ended: (end: SendEnd) => void, permit: SendPermit) => Promise<T>;

interface Entry extends WaitingCall {
  /** It was told to wait, so it leaves nothing to others when its instant comes. */
  isOwed: boolean;
  readonly enteredAt: number;
  readonly send: (permit: Permit) => Promise<unknown>;
  readonly reject: (error: Error) => void;
}

type Choice =
  /** Request a permit for this call. */
  | { readonly kind: "ask"; readonly call: Head<Entry>; readonly leave: readonly number[] }
  | { readonly kind: "wait"; readonly until: number };

/** How often the waiting calls whose instants come first are looked at again. */
const LOOK_EVERY_MS = 500;
const MOST_LOOKED_AT = 20;
/** So many jobs wait to start that Bottleneck, whose timers take 4 ms, is never the limit. */
const LEAD_MS = 20;
const MOST_JOBS = 100;

const NO_CALLER_WAITS = new Problem("temporary-reduced-capacity", {
  refusedHere: true,
  internal: "no caller waits any more",
});

/** The calls of an origin. */
export class Calls {
  readonly #options: CallsOptions;
  readonly #now: () => number;
  readonly #waiting = new Set<Entry>();
  readonly #places: Places;
  readonly #admission: Admission;
  readonly #flying = new InFlight();
  readonly #bottleneck = new Bottleneck({ rejectOnDrop: false });
  #config: CallsConfig;
  #closedBecause: Problem | undefined;
  /** Jobs that have not started. */
  #jobs = 0;
  /** Jobs choose one after the other. */
  #choosing: Promise<unknown> = Promise.resolve();
  #cancelNext = (): void => undefined;
  #isWatching = false;
  readonly #order: FairOrder;

  constructor(options: CallsOptions, config: CallsConfig) {
    const { limiter, circuits, clock, observer } = options;
    this.#options = options;
    this.#now = clock.monotonic;
    this.#config = config;
    this.#order = new FairOrder(options.apps.isListed);
    this.#places = new Places({
      limiter,
      now: clock.monotonic,
      after: clock.after,
      waiting: this.#waiting,
      replicas: () => this.#config.replicas,
    });
    this.#admission = new Admission({
      ...options,
      places: this.#places,
      refused: observer.refused,
      situation: () => this.situation(),
      isEnforced: () => this.#config.mode === "enforce",
    });
    this.configure(config);
    limiter.onChange(() => {
      this.#admission.block(0, false);
      this.#startJobs();
    });
    circuits.onChange(() => {
      for (const entry of this.#waiting) this.#refuseStopped(entry);
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
    const { at, isOwed } = this.#admission.check(request);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const entry: Entry = {
      request,
      at,
      placedAt: this.#now(),
      isOwed,
      enteredAt: this.#options.clock.now(),
      send: (permit) => this.#send(entry, permit, send).then(resolve, reject),
      reject,
    };
    return await promise.finally(this.#wait(entry));
  }

  /** How long a new call would wait. */
  expect(kind: CallKind): Expectation {
    return this.#admission.expect(kind, { ...kind, question: "", cause: "miss" });
  }

  waiting(priority: Priority): number {
    return [...this.#waiting].filter(({ request }) => request.waiting.priority() === priority).length;
  }

  inFlight(): number {
    return this.#bottleneck.counts().EXECUTING ?? 0;
  }

  configure(next: CallsConfig): void {
    this.#config = next;
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

  /** What decisions are based on now. */
  situation(): Situation {
    const { limiter, apps } = this.#options;
    const { concurrency, reserve } = this.#config;
    const state = limiter.state();
    this.#places.hear(state.newsElsewhere);
    return {
      state,
      inFlight: this.#flying.asWindow(concurrency),
      asked: this.#places.asked(),
      apps,
      reserve,
      now: this.#now(),
    };
  }

  #spacingMs(): number {
    const [shortest] = this.#options.limiter.state().windows.toSorted((a, b) => a.windowMs - b.windowMs);
    return Math.min(this.#config.spacingMs, shortest ? shortest.windowMs / shortest.limit / 2 : 0);
  }

  /** Schedules jobs for the calls whose instant has come. With spacing there is one at a time, because each costs a space. */
  #startJobs(): void {
    if (this.#closedBecause !== undefined) return;
    const [next] = this.#firstWaiting(1);
    if (next !== undefined && !this.#isDue(next)) this.#lookAt(next);
    const due = [...this.#waiting].filter((entry) => this.#isDue(entry)).length;
    if (due === 0 && next !== undefined) this.#wakeAt(next.at);
    const most = Math.min(MOST_JOBS, Math.max(1, Math.floor(LEAD_MS / Math.max(0.1, this.#spacingMs()))));
    for (; this.#jobs < Math.min(most, due); this.#jobs++) void this.#bottleneck.schedule(() => this.#job());
  }

  #isDue({ at }: Entry): boolean {
    return at <= this.#now() || this.#config.mode === "observe";
  }

  /** The waiting calls whose instants come first. */
  #firstWaiting(most: number): Entry[] {
    return [...this.#waiting].toSorted((a, b) => a.at - b.at).slice(0, most);
  }

  /** Chooses the call that goes next, and lasts as long as this call. */
  async #job(): Promise<void> {
    this.#jobs--;
    const chosen = this.#choosing.then(() => this.#departNext());
    this.#choosing = chosen.catch(() => undefined);
    const call = await chosen;
    if (call === undefined) return;
    this.#startJobs();
    await call.ended;
    this.#startJobs();
  }

  /** Sends the next call. Without a permit, it arranges the next job. */
  async #departNext(): Promise<{ readonly ended: Promise<unknown> } | undefined> {
    const { limiter } = this.#options;
    let until = Number.POSITIVE_INFINITY;
    /** Apps that may send nothing now, although others may. */
    const refused = new Set<string>();
    const nameOf = ({ app, priority }: CallKind): string => `${priority} ${app}`;
    while (this.#waiting.size > 0) {
      const calls = this.#heads().filter((head) => !refused.has(nameOf(head)));
      const choice = this.#next(calls.filter(({ entry }) => this.#stoppedUntil(entry) === undefined));
      if (choice.kind === "wait") {
        this.#wakeAt(
          Math.min(until, choice.until, ...calls.map(({ entry }) => this.#stoppedUntil(entry) ?? until)),
        );
        return undefined;
      }
      const { entry, app, priority } = choice.call;
      if (!this.#admission.hasTime(entry.request, this.#options.clock.now() > entry.enteredAt)) {
        this.#withdraw(entry, this.#admission.late(entry.request, { app, priority }));
        continue;
      }
      const acquired = await this.#acquire(choice.call, choice.leave);
      // From here to the call's departure nothing may be awaited: the call may have been withdrawn until here.
      if (acquired.kind === "permit") {
        if (this.#waiting.has(entry) && this.#stoppedUntil(entry) === undefined) {
          const situation = this.situation();
          this.#order.departs(app, new Shares(situation, situation.inFlight));
          return { ended: this.#depart(entry, acquired.permit) };
        }
        limiter.release(acquired.permit);
        continue;
      }
      until = Math.min(until, acquired.until);
      const isAway = acquired.reason === "redis-away";
      // Another app may have to leave less, or may have calls left today.
      if (acquired.reason === "reserved" || acquired.reason === "per-day") refused.add(nameOf(choice.call));
      else this.#admission.block(acquired.until, isAway);
      for (const one of isAway ? this.#waiting : [entry]) this.#placeAgain(one, acquired.until);
    }
    return undefined;
  }

  /** The limiter has no permit for a call. */
  #placeAgain(entry: Entry, until: number): void {
    if (!this.#waiting.has(entry)) return;
    const at = this.#admission.again(entry.request, entry.isOwed, until);
    if (typeof at !== "number") return this.#withdraw(entry, at);
    [entry.at, entry.placedAt, entry.isOwed] = [at, this.#now(), true];
  }

  /** The first call of each kind. */
  #heads(): Head<Entry>[] {
    const heads = new Map<string, Head<Entry>>();
    for (const entry of this.#waiting)
      for (const kind of kindsOf(entry.request)) {
        const name = `${kind.priority} ${kind.resource} ${kind.app}`;
        const first = heads.get(name);
        if (first === undefined || entry.at < first.entry.at) heads.set(name, { ...kind, entry });
      }
    return [...heads.values()];
  }

  #next(heads: readonly Head<Entry>[]): Choice {
    const [first] = heads;
    if (this.#config.mode === "observe" && first !== undefined)
      return { kind: "ask", call: first, leave: [] };
    const now = this.#now();
    const blockedUntil = this.#admission.blockedUntil();
    if (now < blockedUntil) return { kind: "wait", until: blockedUntil };
    const [next] = heads.filter(({ entry }) => entry.at > now).toSorted((a, b) => a.entry.at - b.entry.at);
    const situation = this.situation();
    const { inFlight } = situation;
    const flying = new Shares(situation, inFlight);
    let until = next?.entry.at ?? Number.POSITIVE_INFINITY;
    for (const call of this.#order.of(heads.filter(({ entry }) => entry.at <= now))) {
      const { app, priority, entry } = call;
      const isModest = priority === "interactive" && (inFlight.byApp.get(app) ?? 0) < flying.of(app);
      if (inFlight.remaining <= (isModest ? 0 : Math.min(1, inFlight.limit - 1))) continue;
      const leave = this.#admission.calendar(priority, entry.request).leave(call, entry.isOwed);
      const dayAt = dayFreeAt(situation, app);
      if (dayAt <= now) return { kind: "ask", call, leave };
      until = Math.min(until, dayAt);
    }
    return { kind: "wait", until };
  }

  /** Looks at the waiting calls at intervals, until there are none. */
  #watch(): void {
    if (this.#isWatching || this.#config.mode === "observe") return;
    this.#isWatching = true;
    this.#options.clock.after(LOOK_EVERY_MS, () => {
      this.#isWatching = false;
      for (const entry of this.#firstWaiting(MOST_LOOKED_AT)) this.#lookAt(entry);
      if (this.#waiting.size > 0) this.#watch();
      this.#startJobs();
    });
  }

  /** A permit may be free earlier than planned, because others have left or have got an answer. */
  #lookAt(entry: Entry): void {
    const at = this.#admission.review(entry.request);
    if (typeof at !== "number") return this.#withdraw(entry, at);
    if (at < entry.at) [entry.at, entry.isOwed] = [at, entry.isOwed && at > this.#now()];
  }

  #acquire(
    { app, priority, resource, entry }: Head<Entry>,
    leave: readonly number[],
  ): ReturnType<Limiter["acquire"]> {
    const { limiter } = this.#options;
    const { cause, query } = entry.request;
    const request = { app, priority, resource, cause, query: queryHash(query), leave };
    if (this.#config.mode === "enforce") return limiter.acquire(request);
    return limiter.acquireAnyway(request).then((permit) => ({ kind: "permit", permit }));
  }

  #wakeAt(until: number): void {
    this.#cancelNext();
    if (until === Number.POSITIVE_INFINITY) return;
    const afterMs = Math.max(1, Math.ceil(until - this.#now()));
    this.#cancelNext = this.#options.clock.after(afterMs, () => this.#startJobs());
  }

  #depart(entry: Entry, permit: Permit): Promise<unknown> {
    this.#leaveQueue(entry);
    return entry.send(permit);
  }

  /** Sends a call with its permit, and settles the permit in any case. */
  async #send<T>({ request, enteredAt }: Entry, permit: Permit, send: Send<T>): Promise<T> {
    const { circuits, limiter, observer, keyVersion, clock } = this.#options;
    const { app } = permit.request;
    const call = callOf(request);
    const sent = { probeOf: circuits.begin(call), keyVersion: keyVersion() };
    const startedAt = this.#now();
    let isSettled = false;
    const settle = (end: SendEnd): void => {
      if (isSettled) return;
      isSettled = true;
      limiter.complete(permit, end);
      if (typeof end.status === "number" && end.status < 500) this.#admission.answered(end.durationMs);
      circuits.ended(call, end, sent);
    };
    this.#flying.count(app, 1);
    observer.departed(permit.request, clock.now() - enteredAt);
    if (request.cause !== "retry") circuits.departed();
    try {
      return await send(settle, permit);
    } finally {
      const durationMs = this.#now() - startedAt;
      settle({ status: "reset", arrivedAfterMs: durationMs, durationMs });
      this.#flying.count(app, -1);
    }
  }

  #stoppedUntil({ request }: Entry): number | undefined {
    const passage = this.#options.circuits.passage(callOf(request));
    return "until" in passage ? passage.until : undefined;
  }

  #refuseStopped(entry: Entry): void {
    const problem = this.#admission.stopped(entry.request);
    if (problem !== undefined) this.#withdraw(entry, problem);
  }

  #withdraw(entry: Entry, why: Error): void {
    this.#leaveQueue(entry);
    entry.reject(why);
    this.#startJobs();
  }

  #leaveQueue(entry: Entry): void {
    if (this.#waiting.delete(entry)) this.#places.tell();
  }

  #enterQueue(entry: Entry): void {
    this.#waiting.add(entry);
    this.#places.tell();
    this.#watch();
    this.#displace(entry);
    this.#startJobs();
  }

  /** Less urgent calls may lose their places to a call. */
  #displace({ at, request }: Entry): void {
    const urgency = PRIORITIES.indexOf(request.waiting.priority());
    for (const entry of this.#waiting)
      if (
        PRIORITIES.indexOf(entry.request.waiting.priority()) > urgency &&
        entry.at >= at &&
        entry.at > this.#now()
      ) {
        entry.isOwed = false;
        this.#placeAgain(entry, entry.at);
      }
  }

  /** Lets a call wait until it departs, is withdrawn, or its last deadline passes. @returns a function to stop that */
  #wait(entry: Entry): () => void {
    const { request } = entry;
    const { waiting: callers, app } = request;
    let lateProblem: Problem | undefined;
    let cancel = (): void => undefined;
    const onAbandoned = (): void => {
      if (this.#waiting.has(entry)) this.#withdraw(entry, NO_CALLER_WAITS);
    };
    const watchDeadline = (): void => {
      // The deadline moves when other callers join.
      cancel = this.#options.clock.after(Math.max(0, this.#admission.leftMs(request)) + 1, () => {
        if (!this.#waiting.has(entry)) return;
        if (this.#admission.leftMs(request) >= 0) return watchDeadline();
        lateProblem = this.#admission.late(request, { app, priority: callers.priority() });
        this.#withdraw(entry, lateProblem);
      });
    };
    this.#enterQueue(entry);
    callers.onChange(() => {
      if (!this.#waiting.has(entry)) return;
      for (const one of appsOf(request)) this.#places.active.isSeen(one);
      this.#lookAt(entry);
      if (this.#waiting.has(entry)) this.#enterQueue(entry);
    });
    // A caller whose deadline passes before those of others is refused alone. The last one is refused by the timer above.
    callers.inQueue((caller) =>
      this.#waiting.has(entry) ? this.#admission.late(request, caller) : lateProblem,
    );
    callers.abandoned.addEventListener("abort", onAbandoned, { once: true });
    if (callers.abandoned.aborted) onAbandoned();
    watchDeadline();
    return () => {
      cancel();
      callers.abandoned.removeEventListener("abort", onAbandoned);
    };
  }
}

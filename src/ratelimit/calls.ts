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
import type { Priority, RefusalReason } from "../telemetry/events.ts";
import type { SendEnd, SendPermit, UpstreamRequest } from "./throttled.ts";
import { queryHash } from "../usage/ledger.ts";
import type { Circuits } from "./circuits/circuits.ts";
import { type CallKind, choose, createWaitingCalls, type Head } from "./fairness/order.ts";
import type { AppRules, Situation } from "./fairness/shares.ts";
import type { Limiter, Permit, PermitRequest } from "./limiter.ts";
import { appsOf, callOf, type Checked, kindsOf, MayWait } from "./may-wait.ts";
import type { Expectation } from "./refusals.ts";

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

export interface Calls {
  /** Sends a call when it is its turn. See `Throttled`. */
  readonly run: <T>(request: UpstreamRequest, send: Send<T>) => Promise<T>;
  /** How long a new call would wait. */
  readonly expect: (kind: Omit<CallKind, "isBack">) => Expectation;
  readonly waiting: (priority: Priority) => number;
  readonly inFlight: () => number;
  /** What decisions are based on now. */
  readonly situation: () => Situation;
  readonly configure: (config: CallsConfig) => void;
  /** Rejects all waiting calls and all new ones. Resolves when the calls in flight have ended. */
  readonly stop: (why: Problem) => Promise<void>;
}

/** A call that waits. */
interface Entry extends Checked {
  readonly request: UpstreamRequest;
  readonly enteredAt: number;
  readonly send: (permit: Permit) => Promise<unknown>;
  readonly reject: (error: Error) => void;
  isHopeless: boolean;
}

/** How often waiting calls are estimated again. */
const CHECK_EVERY_MS = 500;
/** So many jobs wait to start that Bottleneck, whose timers take 4 ms, is never the limit. */
const LEAD_MS = 20;
const MOST_JOBS = 100;

const NO_CALLER_WAITS = new Problem("temporary-reduced-capacity", {
  refusedHere: true,
  internal: "no caller waits any more",
});

export function createCalls(options: CallsOptions, config: CallsConfig): Calls {
  const calls = new OriginCalls(options, config);
  return {
    run: (request, send) => calls.run(request, send),
    expect: (kind) => calls.expect(kind),
    waiting: (priority) => calls.waitingOf(priority),
    inFlight: () => calls.executing(),
    situation: () => calls.situation(),
    configure: (next) => calls.configure(next),
    stop: (why) => calls.stop(why),
  };
}

class OriginCalls {
  readonly #options: CallsOptions;
  readonly #now: () => number;
  readonly #waiting = createWaitingCalls<Entry>();
  readonly #mayWait: MayWait;
  /** Calls in flight, by app. */
  readonly #flying = new Map<string, number>();
  readonly #bottleneck = new Bottleneck({ rejectOnDrop: false });
  #config: CallsConfig;
  #closedBecause: Problem | undefined;
  /** Jobs that have not started. */
  #jobs = 0;
  /** Jobs choose one after the other. */
  #choosing: Promise<unknown> = Promise.resolve();
  #cancelNext = (): void => undefined;
  #isChecking = false;

  constructor(options: CallsOptions, config: CallsConfig) {
    const { limiter, circuits, clock, observer } = options;
    this.#options = options;
    this.#now = clock.monotonic;
    this.#config = config;
    this.#mayWait = new MayWait({
      ...options,
      refused: observer.refused,
      situation: (except) => this.situation(except),
      isEnforced: () => this.#config.mode === "enforce",
    });
    this.configure(config);
    limiter.onChange(() => {
      this.#mayWait.block(0, false);
      this.#startJobs();
    });
    circuits.onChange(() => {
      for (const entry of this.#waiting.entries()) this.#refuseStopped(entry);
      this.#startJobs();
    });
  }

  async run<T>(request: UpstreamRequest, send: Send<T>): Promise<T> {
    if (this.#closedBecause !== undefined) throw this.#closedBecause;
    const { cause, hasNewCredentials = false } = request;
    // The caller then gets the error of the first call.
    if (cause === "retry" && !hasNewCredentials && !this.#options.circuits.mayRetry())
      throw new Problem("upstream-unavailable", {
        refusedHere: true,
        internal: "the retry budget is used up",
      });
    const checked = this.#mayWait.check(request);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const entry: Entry = {
      ...checked,
      request,
      enteredAt: this.#options.clock.now(),
      isHopeless: false,
      send: (permit) => this.#send(entry, permit, send).then(resolve, reject),
      reject,
    };
    return await promise.finally(this.#wait(entry));
  }

  expect(kind: Omit<CallKind, "isBack">): Expectation {
    return this.#mayWait.expect({ ...kind, isBack: false }, { ...kind, question: "", cause: "miss" });
  }

  waitingOf(priority: Priority): number {
    const ofPriority = this.#waiting.counts().filter((one) => one.priority === priority);
    return ofPriority.reduce((sum, { count }) => sum + count, 0);
  }

  executing(): number {
    return this.#bottleneck.counts().EXECUTING ?? 0;
  }

  configure(next: CallsConfig): void {
    this.#config = next;
    this.#bottleneck.updateSettings({ maxConcurrent: next.concurrency, minTime: this.#spacingMs() });
    this.#startJobs();
  }

  async stop(why: Problem): Promise<void> {
    if (this.#closedBecause !== undefined) return;
    this.#closedBecause = why;
    this.#cancelNext();
    for (const entry of this.#waiting.entries()) this.#withdraw(entry, why);
    await this.#bottleneck.stop({ dropWaitingJobs: true });
  }

  /** What decisions are based on. @param except a call that does not count as waiting */
  situation(except?: UpstreamRequest): Situation {
    const { limiter, apps } = this.#options;
    const { concurrency, reserve, replicas } = this.#config;
    const state = limiter.state();
    for (const { app } of state.waitingElsewhere) this.#mayWait.active.isSeen(app);
    const [own] =
      except && this.#waiting.entries().some(({ request }) => request === except) ? kindsOf(except) : [];
    const inFlight = [...this.#flying.values()].reduce((sum, count) => sum + count, 0);
    const situation: Situation = {
      state,
      waiting: this.#waiting.counts().map((one) => {
        const isOwn = one.app === own?.app && one.priority === own.priority;
        return isOwn ? { ...one, count: one.count - 1 } : one;
      }),
      inFlight: {
        name: "in flight",
        windowMs: 0,
        limit: concurrency,
        spent: inFlight,
        reserved: 0,
        remaining: concurrency - inFlight,
        freeAt: [],
        byApp: this.#flying,
      },
      asked: this.#mayWait.active.asked(),
      apps,
      reserve,
      replicas,
      now: this.#now(),
    };
    this.#mayWait.see(situation);
    return situation;
  }

  #spacingMs(): number {
    const [shortest] = this.#options.limiter.state().windows.toSorted((a, b) => a.windowMs - b.windowMs);
    return Math.min(this.#config.spacingMs, shortest ? shortest.windowMs / shortest.limit / 2 : 0);
  }

  /** Schedules jobs for waiting calls. With spacing there is one at a time, because each costs a space. */
  #startJobs(): void {
    if (this.#closedBecause !== undefined) return;
    const most = Math.min(MOST_JOBS, Math.max(1, Math.floor(LEAD_MS / Math.max(0.1, this.#spacingMs()))));
    for (; this.#jobs < Math.min(most, this.#waiting.size()); this.#jobs++)
      void this.#bottleneck.schedule(() => this.#job());
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
    while (this.#waiting.size() > 0) {
      const calls = this.#waiting.heads().filter((head) => !refused.has(nameOf(head)));
      const choice = this.#next(calls.filter(({ entry }) => this.#stoppedUntil(entry) === undefined));
      if (choice.kind === "wait") {
        this.#wakeAt(
          Math.min(until, choice.until, ...calls.map(({ entry }) => this.#stoppedUntil(entry) ?? until)),
        );
        return undefined;
      }
      const { entry, app, priority } = choice.call;
      if (!this.#mayWait.hasTime(entry.request, entry)) {
        this.#withdraw(entry, this.#mayWait.late(entry.request, { app, priority }));
        continue;
      }
      const acquired = await this.#acquire(choice.call, choice.leave);
      // From here to the call's departure nothing may be awaited: the call may have been withdrawn until here.
      if (acquired.kind === "permit") {
        if (this.#waiting.has(entry) && this.#stoppedUntil(entry) === undefined)
          return { ended: this.#depart(entry, acquired.permit) };
        limiter.release(acquired.permit);
        continue;
      }
      until = Math.min(until, acquired.until);
      // Another app may have to leave less, or may have calls left today.
      if (acquired.reason === "reserved" || acquired.reason === "per-day") refused.add(nameOf(choice.call));
      else this.#mayWait.block(acquired.until, acquired.reason === "redis-away");
    }
    return undefined;
  }

  #next(heads: readonly Head<Entry>[]): ReturnType<typeof choose<Head<Entry>>> {
    const [first] = heads;
    if (this.#config.mode === "observe" && first !== undefined)
      return { kind: "ask", call: first, leave: [] };
    const blockedUntil = this.#mayWait.blockedUntil();
    return this.#now() < blockedUntil
      ? { kind: "wait", until: blockedUntil }
      : choose(this.situation(), heads);
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
    this.#mayWait.learn(entry, this.#options.clock.now() - entry.enteredAt);
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
      if (typeof end.status === "number" && end.status < 500) this.#mayWait.latency.add(end.durationMs);
      circuits.ended(call, end, sent);
    };
    this.#flying.set(app, (this.#flying.get(app) ?? 0) + 1);
    observer.departed(permit.request, clock.now() - enteredAt);
    if (request.cause !== "retry") circuits.departed();
    try {
      return await send(settle, permit);
    } finally {
      const durationMs = this.#now() - startedAt;
      settle({ status: "reset", arrivedAfterMs: durationMs, durationMs });
      const left = (this.#flying.get(app) ?? 1) - 1;
      if (left > 0) this.#flying.set(app, left);
      else this.#flying.delete(app);
    }
  }

  #stoppedUntil({ request }: Entry): number | undefined {
    const passage = this.#options.circuits.passage(callOf(request));
    return "until" in passage ? passage.until : undefined;
  }

  #refuseStopped(entry: Entry): void {
    const problem = this.#mayWait.stopped(entry.request);
    if (problem !== undefined) this.#withdraw(entry, problem);
  }

  /** Checks the waiting calls at intervals, until there are none. */
  #watch(): void {
    if (this.#isChecking) return;
    this.#isChecking = true;
    this.#options.clock.after(CHECK_EVERY_MS, () => {
      this.#isChecking = false;
      if (this.#waiting.size() === 0) return;
      const view = this.situation();
      const before = new Map<string, number>();
      for (const entry of this.#waiting.entries()) {
        this.#refuseStopped(entry);
        if (!this.#waiting.has(entry) || this.#config.mode === "observe") continue;
        // A call is refused when its permit is twice estimated too late.
        const refuse = this.#mayWait.hopeless(entry.request, view, before);
        if (refuse !== undefined && entry.isHopeless) this.#withdraw(entry, refuse());
        entry.isHopeless = refuse !== undefined;
      }
      this.#watch();
    });
  }

  #withdraw(entry: Entry, why: Error): void {
    this.#leaveQueue(entry);
    entry.reject(why);
  }

  #leaveQueue(entry: Entry): void {
    if (this.#waiting.remove(entry)) this.#options.limiter.announce(this.#waiting.counts());
  }

  #enterQueue(entry: Entry): void {
    this.#waiting.put(entry, kindsOf(entry.request, entry.isBack));
    this.#options.limiter.announce(this.#waiting.counts());
    this.#watch();
    this.#startJobs();
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
      cancel = this.#options.clock.after(Math.max(0, this.#mayWait.leftMs(request)) + 1, () => {
        if (!this.#waiting.has(entry)) return;
        if (this.#mayWait.leftMs(request) >= 0) return watchDeadline();
        this.#mayWait.learn(entry, this.#options.clock.now() - entry.enteredAt);
        lateProblem = this.#mayWait.late(request, { app, priority: callers.priority() });
        this.#withdraw(entry, lateProblem);
      });
    };
    this.#enterQueue(entry);
    callers.onChange(() => {
      if (!this.#waiting.has(entry)) return;
      for (const one of appsOf(request)) this.#mayWait.active.isSeen(one);
      this.#enterQueue(entry);
    });
    // A caller whose deadline passes before those of others is refused alone. The last one is refused by the timer above.
    callers.inQueue((caller) =>
      this.#waiting.has(entry) ? this.#mayWait.late(request, caller) : lateProblem,
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

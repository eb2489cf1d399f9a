/** When a call may go, and which problem a refused caller gets. docs/fairness.md explains the rules. */
import type { Config } from "../config/config.ts";
import { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import type { Cause, RefusalReason } from "../telemetry/events.ts";
import type { Apps } from "./apps.ts";
import type { CircuitCall, Circuits, Stop } from "./circuits/circuits.ts";
import { Calendar } from "./fairness/calendar.ts";
import { isOwed, type Placed, Places, type WaitingCall } from "./fairness/places.ts";
import { dayFreeAt, type Situation, situationOf } from "./fairness/shares.ts";
import type { Limiter, LimiterConfig, Permit, WindowState } from "./limiter.ts";
import { type Expectation, refusalOf } from "./refusals.ts";
import { type AppCall, chargesOf, type UpstreamRequest } from "./throttled.ts";

export type CallsConfig = Pick<
  Config["budget"],
  "concurrency" | "spacingMs" | "mode" | "reserve" | "replicas"
> &
  Pick<LimiterConfig, "windows">;

export interface CallsOptions {
  readonly limiter: Limiter;
  readonly circuits: Circuits;
  readonly apps: Apps;
  readonly clock: Clock;
  /** From 0 up to 1: jitter of `Retry-After`. */
  readonly fraction: () => number;
  /** Each `app` is a metric label. */
  readonly observer: {
    /** @param isEnforced whether the call was refused, or only would have been (`budget.mode: observe`) */
    readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
    /** A call departs. It is charged to the app. */
    readonly departed: (app: string, cause: Cause, waitedMs: number) => void;
  };
}

/** A limiter that cannot reach Redis is expected to reach it again after this time. */
const AWAY_MS = 2_000;
/** While Redis is away, calls wait for this long before they are refused. It may only be restarting. */
const PATIENCE_MS = 3_000;
/** Estimates are lengthened by this part before they are compared with a deadline. */
const MARGIN = 0.1;
/** The same with several replicas, because each learns late which calls wait at the others. */
const MARGIN_BESIDE_OTHERS = 0.5;
const LONGEST_MARGIN_MS = 5_000;
/** The weight of the latest answer in the usual latency. */
const LEARNED = 0.1;
/** Few answers take longer than this many times the usual latency. */
const SLOW = 2;
/** A caller may be told to come back so long after its place, because `Retry-After` is in whole seconds. */
const ROUNDED_MS = 1_000;

/** Only the calls in flight hold a call back. */
const IN_FLIGHT: Expectation = { forMs: 0, why: "budget" };

/** An expectation, and the calendar that it was read from. There is no calendar if a circuit refuses the call. */
interface Expected extends Expectation {
  readonly calendar?: Calendar;
}

export class Admission {
  readonly places: Places;
  config: CallsConfig;
  /** The limiter grants no app a permit before this instant. */
  blockedUntil = 0;
  readonly #options: CallsOptions;
  readonly #inFlight: ReadonlySet<Permit>;
  readonly #now: () => number;
  #awaySince = Number.POSITIVE_INFINITY;
  #latencyMs = 0;

  /** @param waiting the calls that wait here @param inFlight the permits of the calls in flight */
  constructor(
    options: CallsOptions,
    config: CallsConfig,
    waiting: ReadonlySet<WaitingCall>,
    inFlight: ReadonlySet<Permit>,
  ) {
    this.#options = options;
    this.config = config;
    this.#inFlight = inFlight;
    this.#now = options.clock.monotonic;
    this.places = new Places(options, waiting, () => this.config.replicas);
  }

  /** Learns how long an answer took. */
  answered(durationMs: number): void {
    this.#latencyMs += (durationMs - this.#latencyMs) * LEARNED;
  }

  /** What decisions are based on now. */
  situation(): Situation {
    const { limiter, apps } = this.#options;
    const { concurrency, reserve } = this.config;
    const state = limiter.state();
    const now = this.#now();
    this.places.hear(state.newsElsewhere);
    this.#awaySince = isAway(state) ? Math.min(this.#awaySince, now) : Number.POSITIVE_INFINITY;
    const facts = { state, asked: this.places.asked(), apps, reserve, now };
    return situationOf(facts, windowOf(this.#inFlight, concurrency));
  }

  /** How long a new call would wait, and for what. */
  expect({ app, priority, resource }: AppCall & { readonly resource: Resource }): Expectation {
    return this.#expect({ resource, query: "", cause: "miss" }, [{ app, priority }]);
  }

  /**
   * Plans a call for the app that can send it first, of all apps that wait for it.
   * @param kept a place that it may use unless a circuit or `perDay` stops it
   * @param notBefore it gets no permit before this instant
   * @returns its place; its problem if a circuit stops it, its permit would come too late, or Redis has been away for long
   */
  plan(request: UpstreamRequest, kept?: Placed, notBefore = 0): Placed | Problem {
    const expected = this.#expect(request, chargesOf(request), request);
    const { why, forMs, calendar } = expected;
    const now = this.#now();
    const mayKeep = kept !== undefined && why !== "cool-off" && why !== "per-day";
    const at = Math.max(notBefore, Math.min(now + forMs, mayKeep ? kept.at : Number.POSITIVE_INFINITY));
    const isLate = at > now && at - now + this.#marginMs(at - now) > this.leftMs(request);
    const isAwayForLong = why === "redis-away" && now >= this.#awaySince + PATIENCE_MS;
    const isRefused = calendar === undefined || isLate || isAwayForLong;
    const waitMs = Math.max(forMs, notBefore - now);
    const problem = isRefused ? this.#refuse(request, { ...expected, forMs: waitMs }, kept) : undefined;
    if (!this.#isEnforced(expected)) return { at: Math.max(now, notBefore), placedAt: now };
    return problem ?? (at === kept?.at ? kept : { at, placedAt: now });
  }

  /** How many permits a call must leave free in each window if it goes now, in the order of `LimiterConfig.windows`. */
  leave(call: WaitingCall, app: string): number[] {
    const { request } = call;
    const priority = request.waiting.priority();
    const calendar = new Calendar(this.situation(), this.places.before(priority, request), { app, priority });
    return calendar.leave(isOwed(call));
  }

  /** The problem of a caller whose deadline passes while the call waits. */
  late(request: UpstreamRequest, caller: AppCall): Problem {
    const { apps, observer, fraction } = this.#options;
    const { app, priority } = caller;
    // Refreshes and prefetches have no caller that notices, and the caller of a retry gets the first attempt's error.
    if ((priority === "interactive" || priority === "background") && request.cause !== "retry")
      observer.refused(apps.labelOf(app), "deadline", true);
    // When the caller tries again, this call is not ahead of it.
    const isObserving = this.config.mode === "observe";
    const why = isObserving ? IN_FLIGHT : this.#expect(request, [caller], request);
    const { code, details } = refusalOf(why, app, fraction());
    return new Problem(code, { ...details, late: true });
  }

  /** Whether a call that has waited can still be answered in time. Otherwise it would waste a permit. */
  hasTime(request: UpstreamRequest, hasWaited: boolean): boolean {
    const left = this.leftMs(request);
    return left > 0 && (!hasWaited || left >= this.#latencyMs);
  }

  leftMs({ waiting }: UpstreamRequest): number {
    return waiting.deadlineAt() - this.#options.clock.now();
  }

  /** Time for the call itself, and for errors of the estimate. */
  #marginMs(waitMs: number): number {
    const margin = this.places.busyReplicas() > 1 ? MARGIN_BESIDE_OTHERS : MARGIN;
    return Math.min(waitMs * margin, LONGEST_MARGIN_MS) + SLOW * this.#latencyMs;
  }

  /** How long a call would wait if the app that can send it first paid for it. @param except this call may get another place */
  #expect(call: CircuitCall, charges: [AppCall, ...AppCall[]], except?: UpstreamRequest): Expected {
    const stop = this.#options.circuits.stopOf(call);
    if (stop?.mayWait === false) return this.#pauseOf(stop);
    const situation = this.situation();
    const places = this.places.before(charges[0].priority, except);
    const all = charges.map((charge) => {
      const calendar = new Calendar(situation, places, charge);
      return { ...this.#expectOf(charge, calendar, stop), calendar };
    });
    return all.reduce((a, b) => (b.forMs < a.forMs ? b : a));
  }

  #expectOf({ app }: AppCall, calendar: Calendar, stop: Stop | undefined): Expectation {
    const { situation } = calendar;
    const { now, state } = situation;
    const at = Math.max(calendar.earliest(now), this.blockedUntil);
    const forMs = at - now;
    if (stop !== undefined && (stop.until >= at || this.config.mode === "observe"))
      return this.#pauseOf(stop);
    if (forMs > 0 && isAway(state)) return { forMs: Math.min(forMs, AWAY_MS), why: "redis-away" };
    const dayAt = dayFreeAt(app, situation);
    if (dayAt > now && dayAt >= at) return { forMs, why: "per-day" };
    return { forMs, why: forMs > 0 && calendar.isHeldBack() ? "share" : "budget" };
  }

  #pauseOf({ until, cause }: Stop): Expectation {
    return { forMs: Math.max(1, until - this.#now()), why: "cool-off", cause };
  }

  /** A call that has lost its place is not promised another one. */
  #refuse(request: UpstreamRequest, expected: Expected, kept: Placed | undefined): Problem {
    const { apps, fraction, observer, circuits } = this.#options;
    const { why, cause, calendar } = expected;
    const [charge] = chargesOf(request);
    const { app } = charge;
    const problem = refusalOf(expected, app, fraction());
    observer.refused(apps.labelOf(app), why, this.#isEnforced(expected));
    if (cause !== undefined) circuits.refused(cause);
    const hasLost = kept !== undefined && isOwed(kept);
    if (calendar === undefined || hasLost || (why !== "budget" && why !== "share")) return problem;
    const backAt = ({ details }: Problem): number => this.#now() + (details.retryAfterSeconds ?? 0) * 1_000;
    // `Retry-After` is in whole seconds. At that instant, the permits may belong to other places.
    const at = calendar.for({ ...charge, isPromise: true }).earliest(backAt(problem));
    const isTaken = at > backAt(problem) + ROUNDED_MS;
    const refusal = isTaken ? refusalOf({ ...expected, forMs: at - this.#now() }, app, 0) : problem;
    this.places.promise(request, backAt(refusal));
    return refusal;
  }

  /** The API itself asks for pauses, so circuits refuse calls in every mode. */
  #isEnforced({ why }: Expectation): boolean {
    return why === "cool-off" || this.config.mode === "enforce";
  }
}

/** The calls in flight as a window, because apps share both in the same way. @param limit most calls in flight */
function windowOf(inFlight: ReadonlySet<Permit>, limit: number): WindowState {
  const byApp = new Map<string, number>();
  for (const { request } of inFlight) byApp.set(request.app, (byApp.get(request.app) ?? 0) + 1);
  const spent = inFlight.size;
  const remaining = limit - spent;
  return { name: "in flight", windowMs: 0, limit, spent, remaining, freeAt: [], byApp };
}

function isAway({ mode }: Situation["state"]): boolean {
  return mode === "degraded" || mode === "joining";
}

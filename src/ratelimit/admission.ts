/** When a call may go, and which problem a refused caller gets. docs/fairness.md explains the rules. */
import type { Config } from "../config/config.ts";
import type { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import type { Cause, Priority, RefusalReason } from "../telemetry/events.ts";
import type { Apps } from "./apps.ts";
import type { CircuitCall, Circuits, Stop } from "./circuits/circuits.ts";
import { Calendar, dayFreeAt } from "./fairness/calendar.ts";
import { isOwed, type Placed, Places, type WaitingCall } from "./fairness/places.ts";
import type { Situation } from "./fairness/shares.ts";
import type { Limiter, LimiterConfig, Permit, WindowState } from "./limiter.ts";
import { type Expectation, lateRefusalOf, refusalOf } from "./refusals.ts";
import { type AppCall, appsOf, type UpstreamRequest } from "./throttled.ts";

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
/** Calls are not refused because Redis is away before it has been away for this long. It may have restarted. */
const PATIENCE_MS = 3_000;
/** Estimates are lengthened by this part before they are compared with a deadline. */
const MARGIN = 0.1;
/** The same with several replicas, because each learns late what the others let wait. */
const MARGIN_BESIDE_OTHERS = 0.5;
const LONGEST_MARGIN_MS = 5_000;
/** An answer changes the usual latency by this part. */
const LEARNED = 0.1;
/** Few answers take longer than this many times the usual latency. */
const SLOW = 2;
/** A caller may be told to come back so long after its place, because `Retry-After` is in whole seconds. */
const ROUNDED_MS = 1_000;

/** An expectation, and the calendar that it was read from, if any. */
interface Expected extends Expectation {
  readonly calendar?: Calendar;
}

export class Admission {
  readonly places: Places;
  config: CallsConfig;
  /** No app gets a permit before, as the limiter replied. */
  blocked = { until: 0, isAway: false };
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

  /** An answer took so long. */
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
    const inFlight = windowOf(this.#inFlight, concurrency);
    return { state, inFlight, asked: this.places.asked(), apps, reserve, now };
  }

  /** The calendar for calls of a priority. @param except a call that may get another place */
  calendar(priority: Priority, except?: UpstreamRequest): Calendar {
    return new Calendar(this.situation(), this.places.before(priority, except));
  }

  /** How long a new call would wait, and for what. */
  expect({ app, priority, resource }: AppCall & { readonly resource: Resource }): Expectation {
    return this.#expect({ resource, query: "", cause: "miss" }, [app], priority);
  }

  /** The place of a new call. Throws the problem of a call that circuits stop, or whose permit would come too late. */
  admit(request: UpstreamRequest): Placed {
    const promisedAt = this.places.ask(request);
    const promised = promisedAt === undefined ? undefined : { at: promisedAt, placedAt: 0 };
    const { expected, place } = this.#plan(request, promised, 0);
    const problem = place === undefined ? this.#refuse(request, expected) : undefined;
    if (!this.#isEnforced(expected)) return this.#placedFrom(0);
    if (place === undefined) throw problem;
    return place;
  }

  /**
   * The next place of a waiting call, or the problem if it comes too late.
   * @param kept the place that it may use in any case
   * @param notBefore it gets no permit before this instant
   */
  again(request: UpstreamRequest, kept?: Placed, notBefore = 0): Placed | Problem {
    const { expected, place } = this.#plan(request, kept, notBefore);
    if (!this.#isEnforced(expected)) return this.#placedFrom(notBefore);
    if (place !== undefined) return place;
    if (kept === undefined || !isOwed(kept) || expected.why === "cool-off")
      return this.#refuse(request, expected);
    return this.late(request, { app: request.app, priority: request.waiting.priority() });
  }

  /** The problem of a caller whose deadline passes while the call waits. */
  late(request: UpstreamRequest, { app, priority }: AppCall): Problem {
    const { apps, observer, fraction } = this.#options;
    // Refreshes and prefetches have no caller that notices, and the caller of a retry gets the first attempt's error.
    if ((priority === "interactive" || priority === "background") && request.cause !== "retry")
      observer.refused(apps.labelOf(app), "deadline", true);
    // When the caller tries again, this call is not ahead of it.
    const expected = this.#expect(request, [app], priority, request);
    const isObserving = this.config.mode === "observe";
    return lateRefusalOf(isObserving ? { ...expected, forMs: 0 } : expected, app, fraction());
  }

  /** Whether a call that has waited can still be answered in time. Otherwise it would waste a permit. */
  hasTime(request: UpstreamRequest, hasWaited: boolean): boolean {
    const left = this.leftMs(request);
    return left > 0 && (!hasWaited || left >= this.#latencyMs);
  }

  leftMs({ waiting }: UpstreamRequest): number {
    return waiting.deadlineAt() - this.#options.clock.now();
  }

  /** Plans a call for the app that can send it first, of all apps that wait for it. It has no place if that is too late. */
  #plan(
    request: UpstreamRequest,
    kept: Placed | undefined,
    notBefore: number,
  ): { readonly expected: Expected; readonly place?: Placed } {
    const expected = this.#expect(request, appsOf(request), request.waiting.priority(), request);
    const { why, forMs, calendar } = expected;
    const now = this.#now();
    const mayKeep = kept !== undefined && why !== "cool-off" && why !== "per-day";
    const at = Math.max(notBefore, Math.min(now + forMs, mayKeep ? kept.at : Number.POSITIVE_INFINITY));
    const isLate = at > now && at - now + this.#marginMs(at - now, kept) > this.leftMs(request);
    const isAwayForLong = why === "redis-away" && now >= this.#awaySince + PATIENCE_MS;
    if (calendar === undefined || isLate || isAwayForLong) return { expected };
    return { expected, place: at === kept?.at ? kept : { at, placedAt: now } };
  }

  /** Time for the call itself, and for errors of the estimate. */
  #marginMs(waitMs: number, kept: Placed | undefined): number {
    if (kept !== undefined && isOwed(kept)) return this.#latencyMs;
    const margin = this.places.busyReplicas() > 1 ? MARGIN_BESIDE_OTHERS : MARGIN;
    return Math.min(waitMs * margin, LONGEST_MARGIN_MS) + SLOW * this.#latencyMs;
  }

  /** How long a call would wait if the app that can send it first paid for it. A circuit that refuses it needs no calendar. */
  #expect(
    call: CircuitCall,
    apps: readonly string[],
    priority: Priority,
    except?: UpstreamRequest,
  ): Expected {
    const stop = this.#options.circuits.stopOf(call);
    if (stop?.mayWait === false) return this.#pauseOf(stop);
    const calendar = this.calendar(priority, except);
    const all = apps.map((app) => this.#expectOf({ app, priority }, calendar, stop));
    return { ...all.reduce((a, b) => (b.forMs < a.forMs ? b : a)), calendar };
  }

  #expectOf(call: AppCall, calendar: Calendar, stop: Stop | undefined): Expectation {
    const { situation } = calendar;
    const now = this.#now();
    const forMs = calendar.earliest(call, now) - now;
    const isObserving = this.config.mode === "observe";
    if (stop !== undefined && (stop.until >= now + forMs || isObserving)) return this.#pauseOf(stop);
    const blockedMs = this.blocked.until - now;
    if (this.blocked.isAway && blockedMs > forMs) return { forMs: blockedMs, why: "redis-away" };
    if (forMs > 0 && isAway(situation.state)) return { forMs: AWAY_MS, why: "redis-away" };
    const dayMs = dayFreeAt(situation, call.app) - now;
    if (dayMs > 0 && dayMs >= forMs) return { forMs: dayMs, why: "per-day" };
    const isOverShare = forMs > 0 && calendar.isHeldBack(call);
    return { forMs: Math.max(forMs, blockedMs), why: isOverShare ? "share" : "budget" };
  }

  #pauseOf({ until, cause }: Stop): Expectation {
    return { forMs: Math.max(1, until - this.#now()), why: "cool-off", cause };
  }

  #refuse(request: UpstreamRequest, expected: Expected): Problem {
    const { apps, fraction, observer, circuits } = this.#options;
    const { why, cause, calendar } = expected;
    const [app = request.app] = appsOf(request);
    const problem = refusalOf(expected, app, fraction());
    observer.refused(apps.labelOf(app), why, this.#isEnforced(expected));
    if (cause !== undefined) circuits.refused(cause);
    if (calendar === undefined || (why !== "budget" && why !== "share")) return problem;
    const backAt = ({ details }: Problem): number => this.#now() + (details.retryAfterSeconds ?? 0) * 1_000;
    // `Retry-After` is in whole seconds. At that instant, the permits may belong to other places.
    const priority = request.waiting.priority();
    const at = calendar.earliest({ app, priority, isPromise: true }, backAt(problem));
    const isTaken = at > backAt(problem) + ROUNDED_MS;
    const refusal = isTaken ? refusalOf({ ...expected, forMs: at - this.#now() }, app, 0) : problem;
    this.places.promise(request, backAt(refusal));
    return refusal;
  }

  /** The API itself asks for pauses, so circuits refuse calls in every mode. */
  #isEnforced({ why }: Expectation): boolean {
    return why === "cool-off" || this.config.mode === "enforce";
  }

  #placedFrom(notBefore: number): Placed {
    const now = this.#now();
    return { at: Math.max(now, notBefore), placedAt: now };
  }
}

/** The calls in flight as a window, because apps share both in the same way. @param limit most calls in flight */
function windowOf(inFlight: ReadonlySet<Permit>, limit: number): WindowState {
  const byApp = new Map<string, number>();
  for (const { request } of inFlight) byApp.set(request.app, (byApp.get(request.app) ?? 0) + 1);
  const spent = inFlight.size;
  const remaining = limit - spent;
  return { name: "in flight", windowMs: 0, limit, spent, reserved: 0, remaining, freeAt: [], byApp };
}

function isAway({ mode }: Situation["state"]): boolean {
  return mode === "degraded" || mode === "joining";
}

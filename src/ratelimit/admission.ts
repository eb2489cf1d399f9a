/** When a call may go, and which problem a refused caller gets. docs/fairness.md explains the rules. */
import type { Config } from "../config/config.ts";
import type { Problem } from "../errors.ts";
import type { Clock } from "../process/clock.ts";
import type { Priority, RefusalReason } from "../telemetry/events.ts";
import { queryHash } from "../usage/ledger-line.ts";
import type { CircuitCall, Circuits, Stop } from "./circuits/circuits.ts";
import { Calendar, dayFreeAt } from "./fairness/calendar.ts";
import { isOwed, type Placed, Places, type WaitingCall } from "./fairness/places.ts";
import type { AppCall, AppRules, Situation } from "./fairness/shares.ts";
import type { Limiter, Permit, PermitRequest, WindowState } from "./limiter.ts";
import { type Expectation, lateRefusalOf, refusalOf } from "./refusals.ts";
import { appsOf, type CallKind, kindsOf, type UpstreamRequest } from "./throttled.ts";

export type CallsConfig = Pick<
  Config["budget"],
  "concurrency" | "spacingMs" | "mode" | "reserve" | "replicas"
>;

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
    const { limiter, clock } = options;
    this.#options = options;
    this.config = config;
    this.#inFlight = inFlight;
    this.#now = clock.monotonic;
    this.places = new Places({
      limiter,
      now: clock.monotonic,
      after: clock.after,
      waiting,
      replicas: () => this.config.replicas,
    });
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
    this.places.hear(state.newsElsewhere);
    const inFlight = windowOf(this.#inFlight, concurrency);
    return { state, inFlight, asked: this.places.asked(), apps, reserve, now: this.#now() };
  }

  /** The calendar for calls of a priority. @param except a call that may get another place */
  calendar(priority: Priority, except?: UpstreamRequest): Calendar {
    return new Calendar(this.situation(), this.places.before(priority, except));
  }

  /** How long a new call would wait, and for what. */
  expect(kind: CallKind): Expectation {
    const call = { ...kind, question: "", cause: "miss" } as const;
    return this.#refusedFor(call) ?? this.#expect(this.calendar(kind.priority), kind, call);
  }

  /** The place of a new call. Throws the problem of a call that circuits stop, or whose permit would come too late. */
  admit(request: UpstreamRequest): Placed {
    for (const app of appsOf(request)) this.places.active.see(app, 1);
    const promisedAt = this.places.take(nameOf(request));
    const planned = this.#plan(
      request,
      promisedAt === undefined ? undefined : { at: promisedAt, placedAt: 0 },
    );
    const isEnforced = this.#isEnforced(planned.expectation);
    if (planned.isTooLate) {
      const problem = this.#refuse(request, planned);
      if (isEnforced) throw problem;
    }
    return isEnforced ? planned.place : this.#placedNow();
  }

  /**
   * The next place of a waiting call, or the problem if it comes too late.
   * @param kept the place that it may use in any case
   * @param notBefore it gets no permit before this instant
   */
  again(request: UpstreamRequest, kept?: Placed, notBefore = 0): Placed | Problem {
    const planned = this.#plan(request, kept, notBefore);
    if (!this.#isEnforced(planned.expectation)) return this.#placedNow(notBefore);
    if (!planned.isTooLate) return planned.place;
    if (kept === undefined || !isOwed(kept) || planned.expectation.why === "cool-off")
      return this.#refuse(request, planned);
    return this.late(request, { app: request.app, priority: request.waiting.priority() });
  }

  /** The problem of a caller whose deadline passes while the call waits. */
  late(request: UpstreamRequest, { app, priority }: AppCall): Problem {
    const { observer, fraction } = this.#options;
    // Refreshes and prefetches have no caller that notices, and the caller of a retry gets the first attempt's error.
    if ((priority === "interactive" || priority === "background") && request.cause !== "retry")
      observer.refused(app, "deadline", true);
    // When the caller tries again, this call is not ahead of it.
    const kind = { app, priority, resource: request.resource };
    const call = callOf(request);
    const expectation = this.#refusedFor(call) ?? this.#expect(this.calendar(priority, request), kind, call);
    const isObserving = this.config.mode === "observe";
    return lateRefusalOf(isObserving ? { ...expectation, forMs: 0 } : expectation, app, fraction());
  }

  /** Whether a call that has waited can still be answered in time. Otherwise it would waste a permit. */
  hasTime(request: UpstreamRequest, hasWaited: boolean): boolean {
    const left = this.leftMs(request);
    return left > 0 && (!hasWaited || left >= this.#latencyMs);
  }

  leftMs({ waiting }: UpstreamRequest): number {
    return waiting.deadlineAt() - this.#options.clock.now();
  }

  /** Plans a call for the app that can send it first, of all apps that wait for it. */
  #plan(request: UpstreamRequest, kept?: Placed, notBefore = 0): Planned {
    const call = callOf(request);
    const now = this.#now();
    const refusedFor = this.#refusedFor(call);
    if (refusedFor !== undefined)
      return { expectation: refusedFor, place: { at: now, placedAt: now }, isTooLate: true };
    const calendar = this.calendar(request.waiting.priority(), request);
    this.#awaySince = isAway(calendar.situation) ? Math.min(this.#awaySince, now) : Number.POSITIVE_INFINITY;
    const expectation = kindsOf(request)
      .map((kind) => this.#expect(calendar, kind, call))
      .reduce((a, b) => (b.forMs < a.forMs ? b : a));
    const { why, forMs } = expectation;
    const mayKeep = kept !== undefined && why !== "cool-off" && why !== "per-day";
    const at = Math.max(notBefore, Math.min(now + forMs, mayKeep ? kept.at : Number.POSITIVE_INFINITY));
    const isLate = at > now && at - now + this.#marginMs(at - now, kept) > this.leftMs(request);
    const isAwayForLong = why === "redis-away" && now >= this.#awaySince + PATIENCE_MS;
    return {
      expectation,
      calendar,
      place: at === kept?.at ? kept : { at, placedAt: now },
      isTooLate: isLate || isAwayForLong,
    };
  }

  /** Time for the call itself, and for errors of the estimate. */
  #marginMs(waitMs: number, kept: Placed | undefined): number {
    if (kept !== undefined && isOwed(kept)) return this.#latencyMs;
    const margin = this.places.busyReplicas() > 1 ? MARGIN_BESIDE_OTHERS : MARGIN;
    return Math.min(waitMs * margin, LONGEST_MARGIN_MS) + SLOW * this.#latencyMs;
  }

  /** How long a circuit refuses a call. Nothing else matters then, so no calendar is needed. */
  #refusedFor(call: CircuitCall): Expectation | undefined {
    const passage = this.#options.circuits.passage(call);
    return passage.kind === "refuse" ? this.#pauseOf(passage) : undefined;
  }

  #pauseOf({ until, cause }: Stop): Expectation {
    return { forMs: Math.max(1, until - this.#now()), why: "cool-off", cause };
  }

  #expect(calendar: Calendar, kind: CallKind, call: CircuitCall): Expectation {
    const passage = this.#options.circuits.passage(call);
    const now = this.#now();
    const { situation } = calendar;
    const forMs = calendar.earliest(kind, now) - now;
    const isLonger = "until" in passage && (passage.until >= now + forMs || this.config.mode === "observe");
    if ("until" in passage && isLonger) return this.#pauseOf(passage);
    const blockedMs = this.blocked.until - now;
    if (this.blocked.isAway && blockedMs > forMs) return { forMs: blockedMs, why: "redis-away" };
    if (forMs > 0 && isAway(situation)) return { forMs: AWAY_MS, why: "redis-away" };
    const dayMs = dayFreeAt(situation, kind.app) - now;
    if (dayMs > 0 && dayMs >= forMs) return { forMs: dayMs, why: "per-day" };
    const isOverShare = forMs > 0 && calendar.isHeldBack(kind);
    return { forMs: Math.max(forMs, blockedMs), why: isOverShare ? "share" : "budget" };
  }

  #refuse(request: UpstreamRequest, { expectation, calendar }: Planned): Problem {
    const { fraction, observer, circuits } = this.#options;
    const { why, cause } = expectation;
    const [kind] = kindsOf(request);
    const app = kind?.app ?? request.app;
    const problem = refusalOf(expectation, app, fraction());
    observer.refused(app, why, this.#isEnforced(expectation));
    if (cause !== undefined) circuits.refused(cause);
    const isOfBudget = why === "budget" || why === "share";
    if (kind === undefined || calendar === undefined || !isOfBudget) return problem;
    const backAt = ({ details }: Problem): number => this.#now() + (details.retryAfterSeconds ?? 0) * 1_000;
    // `Retry-After` is in whole seconds. At that instant, the permits may belong to other places.
    const at = calendar.earliest({ ...kind, isPromise: true }, backAt(problem));
    const isTaken = at > backAt(problem) + ROUNDED_MS;
    const refusal = isTaken ? refusalOf({ ...expectation, forMs: at - this.#now() }, app, 0) : problem;
    this.places.keep(nameOf(request), kind, backAt(refusal));
    return refusal;
  }

  /** The API itself asks for pauses, so circuits refuse calls in every mode. */
  #isEnforced({ why }: Expectation): boolean {
    return why === "cool-off" || this.config.mode === "enforce";
  }

  #placedNow(notBefore = 0): Placed {
    const now = this.#now();
    return { at: Math.max(now, notBefore), placedAt: now };
  }
}

/** A decision about a call. */
interface Planned {
  readonly expectation: Expectation;
  /** Missing if a circuit refuses the call. */
  readonly calendar?: Calendar;
  readonly place: Placed;
  readonly isTooLate: boolean;
}

/** The calls in flight as a window, because apps share both in the same way. @param limit most calls in flight */
function windowOf(inFlight: ReadonlySet<Permit>, limit: number): WindowState {
  const byApp = new Map<string, number>();
  for (const { request } of inFlight) byApp.set(request.app, (byApp.get(request.app) ?? 0) + 1);
  const spent = inFlight.size;
  const remaining = limit - spent;
  return { name: "in flight", windowMs: 0, limit, spent, reserved: 0, remaining, freeAt: [], byApp };
}

function isAway({ state: { mode } }: Situation): boolean {
  return mode === "degraded" || mode === "joining";
}

export function callOf({ resource, query, cause }: UpstreamRequest): CircuitCall {
  return { resource, question: query, cause };
}

/** A caller that comes back is known by its app and its question. */
function nameOf(request: UpstreamRequest): string {
  const [app = request.app] = appsOf(request);
  return queryHash(`${app} ${request.resource} ${request.query}`);
}

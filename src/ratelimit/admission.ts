/** Which calls may wait, and what the callers of the others get. docs/fairness.md explains the rules. */
import type { Problem } from "../errors.ts";
import type { Clock } from "../process/clock.ts";
import type { Priority, RefusalReason } from "../telemetry/events.ts";
import { queryHash } from "../usage/ledger-line.ts";
import type { CircuitCall, Circuits } from "./circuits/circuits.ts";
import { Calendar, dayFreeAt } from "./fairness/calendar.ts";
import type { Places } from "./fairness/places.ts";
import type { AppCall, Situation } from "./fairness/shares.ts";
import { type Expectation, lateRefusalOf, refusalOf } from "./refusals.ts";
import { appsOf, type CallKind, kindsOf, type UpstreamRequest } from "./throttled.ts";

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

export interface AdmissionOptions {
  readonly circuits: Circuits;
  readonly clock: Clock;
  /** From 0 up to 1: jitter of `Retry-After`. */
  readonly fraction: () => number;
  /** @param isEnforced whether the call was refused, or only would have been (`budget.mode: observe`) */
  readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
  readonly situation: () => Situation;
  readonly places: Places;
  readonly isEnforced: () => boolean;
}

export class Admission {
  readonly #options: AdmissionOptions;
  /** No app gets a permit before, as the limiter replied. */
  #blocked = { until: 0, isAway: false };
  #awaySince = Number.POSITIVE_INFINITY;
  #latencyMs = 0;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** No app gets a permit before an instant. */
  block(until: number, isAway: boolean): void {
    this.#blocked = { until, isAway };
  }

  blockedUntil(): number {
    return this.#blocked.until;
  }

  /** An answer took so long. */
  answered(durationMs: number): void {
    this.#latencyMs += (durationMs - this.#latencyMs) * LEARNED;
  }

  /** The calendar for calls of a priority. @param except a call that may get another place */
  calendar(priority: Priority, except?: UpstreamRequest): Calendar {
    const { situation, places } = this.#options;
    return new Calendar(situation(), places.before(priority, except));
  }

  /** How long a new call would wait, and for what. */
  expect(kind: CallKind, call: CircuitCall): Expectation {
    return this.#expect(this.calendar(kind.priority), kind, call);
  }

  /**
   * Throws the problem of a call that circuits stop, or whose permit would come too late.
   * @returns the instant of its permit, and whether it was told to wait or to come back for it
   */
  check(request: UpstreamRequest): { readonly at: number; readonly isOwed: boolean } {
    const call = callOf(request);
    const kinds = kindsOf(request);
    const { places } = this.#options;
    for (const { app } of kinds) places.active.asks(app);
    const promisedAt = places.take(nameOf(request));
    const calendar = this.calendar(request.waiting.priority());
    this.#noticeAway(calendar.situation);
    const expectations = kinds.map((kind) => {
      const expectation = this.#expect(calendar, kind, call);
      const { why, forMs } = expectation;
      if (promisedAt === undefined || (why !== "budget" && why !== "share")) return expectation;
      return { ...expectation, forMs: Math.min(forMs, Math.max(0, promisedAt - this.#now())) };
    });
    const [first] = expectations;
    if (first === undefined) return { at: this.#now(), isOwed: false };
    const isRefused =
      this.#options.circuits.passage(call).kind === "refuse" ||
      expectations.every((expectation) => this.#isTooLate(expectation, request));
    if (isRefused) {
      const problem = this.#refuse(request, first, calendar);
      if (this.#isEnforced(first)) throw problem;
    }
    const forMs = Math.min(...expectations.map((expectation) => expectation.forMs));
    return { at: this.#now() + forMs, isOwed: forMs > 0 || promisedAt !== undefined };
  }

  /**
   * The limiter gives a call no permit before an instant.
   * @param isOwed whether it was told to wait
   * @returns the next instant of its permit, or the problem if that is too late
   */
  again(request: UpstreamRequest, isOwed: boolean, until: number): number | Problem {
    const priority = request.waiting.priority();
    const calendar = this.calendar(priority, request);
    this.#noticeAway(calendar.situation);
    const expectation = this.#soonest(calendar, request);
    if (!isOwed && this.#isTooLate(expectation, request)) return this.#refuse(request, expectation, calendar);
    if (!isOwed) return this.#now() + expectation.forMs;
    const isHopeless = until - this.#now() + this.#latencyMs > this.leftMs(request);
    return isHopeless || this.#isAwayForLong(expectation)
      ? this.late(request, { app: request.app, priority })
      : until;
  }

  /**
   * Looks again at a waiting call.
   * @returns the first instant at which it may go, or the problem if it waits for Redis that is away for long
   */
  review(request: UpstreamRequest): number | Problem {
    const calendar = this.calendar(request.waiting.priority(), request);
    this.#noticeAway(calendar.situation);
    const expectation = this.#soonest(calendar, request);
    if (!this.#isAwayForLong(expectation)) return this.#now() + expectation.forMs;
    return this.late(request, { app: request.app, priority: request.waiting.priority() });
  }

  /** What a call waits for that may go for any of its apps. */
  #soonest(calendar: Calendar, request: UpstreamRequest): Expectation {
    const all = kindsOf(request).map((kind) => this.#expect(calendar, kind, callOf(request)));
    return all.reduce((a, b) => (b.forMs < a.forMs ? b : a));
  }

  /** The problem of a waiting call that circuits stop for too long. */
  stopped(request: UpstreamRequest): Problem | undefined {
    const passage = this.#options.circuits.passage(callOf(request));
    if (!("until" in passage)) return undefined;
    const { until, cause, kind } = passage;
    const forMs = Math.max(1, until - this.#now());
    const expectation: Expectation = { forMs, why: "cool-off", isOverShare: false, cause };
    const isRefused = kind === "refuse" || this.#isTooLate(expectation, request);
    return isRefused ? this.#refuse(request, expectation) : undefined;
  }

  /** The problem of a caller whose deadline passes while the call waits. */
  late(request: UpstreamRequest, { app, priority }: AppCall): Problem {
    const { refused, isEnforced, fraction } = this.#options;
    // Refreshes and prefetches have no caller that notices, and the caller of a retry gets the first attempt's error.
    if ((priority === "interactive" || priority === "background") && request.cause !== "retry")
      refused(app, "deadline", true);
    const kind = { app, priority, resource: request.resource };
    // When the caller tries again, this call is not ahead of it.
    const expectation = this.#expect(this.calendar(priority, request), kind, callOf(request));
    return lateRefusalOf(isEnforced() ? expectation : { ...expectation, forMs: 0 }, app, fraction());
  }

  /** Whether a call that has waited can still be answered in time. Otherwise it would waste a permit. */
  hasTime(request: UpstreamRequest, hasWaited: boolean): boolean {
    const left = this.leftMs(request);
    return left > 0 && (!hasWaited || left >= this.#latencyMs);
  }

  leftMs({ waiting }: UpstreamRequest): number {
    return waiting.deadlineAt() - this.#options.clock.now();
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }

  #expect(calendar: Calendar, kind: CallKind, call: CircuitCall): Expectation {
    const passage = this.#options.circuits.passage(call);
    const now = this.#now();
    const { situation } = calendar;
    const forMs = calendar.earliest(kind, now) - now;
    if ("until" in passage && (passage.kind === "refuse" || passage.until >= now + forMs)) {
      const { until, cause } = passage;
      return { forMs: Math.max(1, until - now), why: "cool-off", isOverShare: false, cause };
    }
    const blockedMs = this.#blocked.until - now;
    if (this.#blocked.isAway && blockedMs > forMs)
      return { forMs: blockedMs, why: "redis-away", isOverShare: false };
    if (forMs > 0 && isAway(situation)) return { forMs: AWAY_MS, why: "redis-away", isOverShare: false };
    const dayMs = dayFreeAt(situation, kind.app) - now;
    if (dayMs > 0 && dayMs >= forMs) return { forMs: dayMs, why: "per-day", isOverShare: false };
    const isOverShare = forMs > 0 && calendar.isHeldBack(kind);
    return { forMs: Math.max(forMs, blockedMs), why: isOverShare ? "share" : "budget", isOverShare };
  }

  #noticeAway(situation: Situation): void {
    this.#awaySince = isAway(situation) ? Math.min(this.#awaySince, this.#now()) : Number.POSITIVE_INFINITY;
  }

  #isAwayForLong({ why }: Pick<Expectation, "why">): boolean {
    return why === "redis-away" && this.#now() >= this.#awaySince + PATIENCE_MS;
  }

  #isTooLate({ forMs, why }: Expectation, request: UpstreamRequest): boolean {
    if (this.#isAwayForLong({ why })) return true;
    const margin = this.#options.places.busyReplicas() > 1 ? MARGIN_BESIDE_OTHERS : MARGIN;
    const marginMs = Math.min(forMs * margin, LONGEST_MARGIN_MS) + SLOW * this.#latencyMs;
    return forMs > 0 && forMs + marginMs > this.leftMs(request);
  }

  #refuse(request: UpstreamRequest, expectation: Expectation, calendar?: Calendar): Problem {
    const { fraction, refused, circuits, places } = this.#options;
    const [kind] = kindsOf(request);
    const app = kind?.app ?? request.app;
    const refusal = refusalOf(expectation, app, fraction());
    const { reason } = refusal;
    let { problem } = refusal;
    refused(app, reason, this.#isEnforced(expectation));
    if (expectation.cause !== undefined) circuits.refused(expectation.cause);
    else if (kind !== undefined && calendar !== undefined && (reason === "budget" || reason === "share")) {
      const backAt = (): number => this.#now() + (problem.details.retryAfterSeconds ?? 0) * 1_000;
      // At the rounded time, others may have the permits.
      const at = calendar.earliest({ ...kind, isPromise: true }, backAt());
      if (at > backAt() + ROUNDED_MS)
        ({ problem } = refusalOf({ ...expectation, forMs: at - this.#now() }, app, 0));
      places.keep(nameOf(request), kind, backAt());
    }
    return problem;
  }

  /** The API itself asks for pauses, so circuits refuse calls in every mode. */
  #isEnforced({ why }: Expectation): boolean {
    return why === "cool-off" || this.#options.isEnforced();
  }
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

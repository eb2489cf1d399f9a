/** Which calls may wait, and what the callers of the others get. docs/fairness.md explains the rules. */
import type { Problem } from "../errors.ts";
import type { Clock } from "../process/clock.ts";
import type { RefusalReason } from "../telemetry/events.ts";
import type { UpstreamRequest } from "./throttled.ts";
import type { CircuitCall, Circuits } from "./circuits/circuits.ts";
import { createActiveApps } from "./fairness/active-apps.ts";
import type { CallKind } from "./fairness/order.ts";
import type { AppCall, Situation } from "./fairness/shares.ts";
import { callsOf, createKeptPlaces, createLatency, estimate } from "./fairness/wait-estimate.ts";
import type { WaitingApp } from "./limiter.ts";
import { type Expectation, lateRefusalOf, refusalOf } from "./refusals.ts";

/** Estimates are lengthened by this factor before they are compared with a deadline, because new calls may overtake. */
const MARGIN = 1.2;
/** The same if calls wait at other replicas, because these compete for the same permits. */
const MARGIN_BESIDE_OTHERS = 2;
/** A caller that came back waits if its deadline allows this part of its estimate. */
const KEPT_PART = 0.85;
/** A waiting call is refused when its deadline does not even allow this part of its estimate. */
const HOPELESS_PART = 0.5;
/** Places that are due so soon are not given to others, even if a permit is free. */
const SOON_MS = 1_000;
/** Shorter waits say nothing about estimates. */
const LEAST_LEARNED_MS = 200;
/** Each call changes the slowness by this part. */
const LEARNED = 0.05;
const MOST_SLOWNESS = 3;
/** Calls are not refused because Redis is away before it has been away for this long. It may have restarted. */
const PATIENCE_MS = 3_000;

export interface MayWaitOptions {
  readonly circuits: Circuits;
  readonly clock: Clock;
  /** From 0 up to 1: jitter of `Retry-After`. */
  readonly fraction: () => number;
  /** @param isEnforced whether the call was refused, or only would have been (`budget.mode: observe`) */
  readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
  /** @param except a call that does not count as waiting */
  readonly situation: (except?: UpstreamRequest) => Situation;
  readonly isEnforced: () => boolean;
}

/** What `check` found out about a call that may wait. */
export interface Checked {
  readonly estimatedMs: number;
  /** Its caller came back when it was told to. */
  readonly isBack: boolean;
}

export class MayWait {
  readonly active;
  readonly latency;
  readonly #options: MayWaitOptions;
  readonly #places;
  /** No app gets a permit before, as the limiter replied. */
  #blocked = { until: 0, isAway: false };
  #awaySince = Number.POSITIVE_INFINITY;
  /** By which factor calls waited longer than estimated. */
  #slowness = 1;

  constructor(options: MayWaitOptions) {
    const now = options.clock.monotonic;
    this.#options = options;
    this.active = createActiveApps(now);
    this.latency = createLatency(now);
    this.#places = createKeptPlaces(now);
  }

  /** No app gets a permit before an instant. */
  block(until: number, isAway: boolean): void {
    this.#blocked = { until, isAway };
  }

  blockedUntil(): number {
    return this.#blocked.until;
  }

  /** Notes whether Redis is away. */
  see({ state }: Situation): void {
    const isAway = state.mode === "degraded" || state.mode === "joining";
    this.#awaySince = isAway ? Math.min(this.#awaySince, this.#now()) : Number.POSITIVE_INFINITY;
  }

  /**
   * How long a call would wait, and for what.
   * @param place how many calls of the app go first; by default all that wait
   */
  expect(
    kind: CallKind,
    call: CircuitCall,
    view: Situation = this.#options.situation(),
    place?: number,
  ): Expectation {
    const elsewhere = place === undefined ? callsOf(view.state.waitingElsewhere, kind.app) : 0;
    const expectation = estimate(view, kind, place ?? callsOf(view.waiting, kind.app), elsewhere);
    const passage = this.#options.circuits.passage(call);
    const now = this.#now();
    if ("until" in passage && (passage.kind === "refuse" || passage.until >= now + expectation.forMs))
      return {
        ...expectation,
        forMs: Math.max(1, passage.until - now),
        why: "cool-off",
        cause: passage.cause,
      };
    const blockedMs = this.#blocked.until - now;
    if (blockedMs <= expectation.forMs) return expectation;
    return { ...expectation, forMs: blockedMs, why: this.#blocked.isAway ? "redis-away" : "budget" };
  }

  /** Throws the problem of a call that circuits stop, or whose permit would come too late. */
  check(request: UpstreamRequest): Checked {
    const { situation, circuits } = this.#options;
    const [view, call] = [situation(), callOf(request)];
    const expectations = kindsOf(request).map((kind) => this.#expectNew(kind, call, view));
    const isBeside = view.state.waitingElsewhere.length > 0;
    const margin = Math.max(1, this.#slowness) * (isBeside ? MARGIN_BESIDE_OTHERS : MARGIN);
    const isRefused =
      circuits.passage(call).kind === "refuse" ||
      expectations.every((one) => this.#isTooLate(one, request, one.isKept ? KEPT_PART : margin));
    const [first] = expectations;
    if (first === undefined) return { estimatedMs: 0, isBack: false };
    if (isRefused) {
      const problem = this.#refuse(request, first);
      if (this.#isEnforced(first)) throw problem;
    }
    const estimatedMs = this.#isEnforced(first) ? first.forMs : 0;
    return { estimatedMs, isBack: expectations.some(({ isKept }) => isKept) };
  }

  /** The problem of a waiting call that circuits stop for too long. */
  stopped(request: UpstreamRequest): Problem | undefined {
    const passage = this.#options.circuits.passage(callOf(request));
    if (!("until" in passage)) return undefined;
    const { until, cause, kind } = passage;
    const forMs = Math.max(1, until - this.#now());
    const expectation: Expectation = { forMs, why: "cool-off", isOverShare: false, cause };
    const isRefused = kind === "refuse" || this.#isTooLate(expectation, request, 1);
    return isRefused ? this.#refuse(request, expectation) : undefined;
  }

  /**
   * What a waiting call is refused with if its permit is now estimated too late.
   * @param before how many calls of each app are in front of it; its own are added
   */
  hopeless(
    request: UpstreamRequest,
    view: Situation,
    before: Map<string, number>,
  ): (() => Problem) | undefined {
    const expectations = kindsOf(request).map((kind) => {
      const place = before.get(kind.app) ?? 0;
      before.set(kind.app, place + 1);
      return this.expect(kind, callOf(request), view, place);
    });
    const [first] = expectations;
    const isHopeless = expectations.every((one) => this.#isTooLate(one, request, HOPELESS_PART));
    return first !== undefined && isHopeless ? () => this.#refuse(request, first) : undefined;
  }

  /** The problem of a caller whose deadline passes while the call waits. */
  late(request: UpstreamRequest, { app, priority }: AppCall): Problem {
    const { refused, situation, isEnforced, fraction } = this.#options;
    // Refreshes and prefetches have no caller that notices, and the caller of a retry gets the first attempt's error.
    if ((priority === "interactive" || priority === "background") && request.cause !== "retry")
      refused(app, "deadline", true);
    const kind = { app, priority, resource: request.resource, isBack: false };
    // When the caller tries again, this call is not ahead of it.
    const expectation = this.expect(kind, callOf(request), situation(request));
    return lateRefusalOf(isEnforced() ? expectation : { ...expectation, forMs: 0 }, app, fraction());
  }

  /** Whether a call that has waited can still be answered in time. Otherwise it would waste a permit. */
  hasTime(request: UpstreamRequest, { estimatedMs }: Checked): boolean {
    const left = this.leftMs(request);
    return left > 0 && (estimatedMs === 0 || left >= this.latency.p99Ms());
  }

  /** Compares a wait with its estimate. */
  learn({ estimatedMs }: Checked, waitedMs: number): void {
    if (estimatedMs < LEAST_LEARNED_MS) return;
    this.#slowness += (Math.min(waitedMs / estimatedMs, MOST_SLOWNESS) - this.#slowness) * LEARNED;
  }

  leftMs({ waiting }: UpstreamRequest): number {
    return waiting.deadlineAt() - this.#options.clock.now();
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }

  #expectNew(
    kind: CallKind,
    call: CircuitCall,
    view: Situation,
  ): Expectation & { readonly isKept?: boolean } {
    const behind = (kept: readonly WaitingApp[]): Expectation =>
      this.expect(kind, call, { ...view, waiting: [...view.waiting, ...kept] });
    this.active.asks(kind.app);
    if (this.#places.take(kind.app, view.replicas)) return { ...behind([]), isKept: true };
    const soon = behind(this.#places.counts(view.replicas, this.#now() + SOON_MS));
    return soon.forMs === 0 ? soon : behind(this.#places.counts(view.replicas));
  }

  #isTooLate({ forMs, why }: Expectation, request: UpstreamRequest, factor: number): boolean {
    if (why === "redis-away" && this.#now() >= this.#awaySince + PATIENCE_MS) return true;
    return forMs > 0 && forMs * factor + this.latency.p99Ms() > this.leftMs(request);
  }

  #refuse(request: UpstreamRequest, expectation: Expectation): Problem {
    const { fraction, refused, circuits } = this.#options;
    const [app = request.app] = appsOf(request);
    const { reason, problem } = refusalOf(expectation, app, fraction());
    refused(app, reason, this.#isEnforced(expectation));
    if (expectation.cause !== undefined) circuits.refused(expectation.cause);
    else if (reason === "budget" || reason === "share")
      this.#places.keep(app, this.#now() + expectation.forMs);
    return problem;
  }

  /** The API itself asks for pauses, so circuits refuse calls in every mode. */
  #isEnforced({ why }: Expectation): boolean {
    return why === "cool-off" || this.#options.isEnforced();
  }
}

/** The apps that wait for a call. It may be charged to any of them. Without a caller: the app that started it. */
export function appsOf({ app, waiting }: UpstreamRequest): readonly string[] {
  const apps = waiting.apps();
  return apps.length === 0 ? [app] : apps;
}

export function kindsOf(request: UpstreamRequest, isBack = false): readonly CallKind[] {
  const priority = request.waiting.priority();
  return appsOf(request).map((app) => ({ app, priority, resource: request.resource, isBack }));
}

export function callOf({ resource, query, cause }: UpstreamRequest): CircuitCall {
  return { resource, question: query, cause };
}

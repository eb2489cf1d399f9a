/** Admission: which calls are refused immediately or while they wait, and with which problem. */
import type { Problem } from "../errors.ts";
import type { Clock } from "../process/clock.ts";
import type { UpstreamRequest } from "../types.ts";
import type { CircuitCall, Circuits } from "./circuits.ts";
import type { QueueKind } from "./fair-queue.ts";
import { type Expectation, lateRefusalOf, type RefusalReason, refusalOf } from "./problems.ts";
import { type Place, predict } from "./prediction.ts";
import type { View } from "./scheduler.ts";

export interface AdmissionOptions {
  /** @param except a call that does not count as waiting */
  readonly view: (except?: UpstreamRequest) => View;
  readonly circuits: Circuits;
  readonly latency: Latency;
  readonly clock: Clock;
  /** From 0 up to 1: jitter of `Retry-After`. */
  readonly fraction: () => number;
  readonly concurrency: () => number;
  readonly isEnforced: () => boolean;
  readonly inFlight: () => number;
  /** No app gets a permit before, as the limiter replied. */
  readonly blockedUntil: () => number;
  /** Redis stopped answering a moment ago. Calls are not refused for that yet, because it may answer again soon. */
  readonly isJustCutOff: () => boolean;
  /** @param isEnforced whether the call was refused, or only would have been (`budget.mode: observe`) */
  readonly refused: (app: string, reason: RefusalReason | "deadline", isEnforced: boolean) => void;
}

export interface Admission {
  /** How long a new call would wait: for circuits, a permit, and the end of a call in flight. */
  readonly expect: (kind: QueueKind, call: CircuitCall) => Expectation;
  /** Throws the problem of a call that circuits stop, or whose answer would be too late. */
  readonly check: (request: UpstreamRequest) => void;
  /** The problem of a waiting call that circuits stop now. */
  readonly stopped: (request: UpstreamRequest) => Problem | undefined;
  /**
   * The expectation of a waiting call if its permit is now predicted too late.
   * @param places for each app that waits for the call: how many of the app's calls go first
   */
  readonly hopeless: (
    view: View,
    request: UpstreamRequest,
    places: readonly number[],
  ) => Expectation | undefined;
  /** Counts a refusal. @returns its problem */
  readonly refuse: (request: UpstreamRequest, expectation: Expectation) => Problem;
  /** Whether a call that is sent now is likely to be answered after its deadline. */
  readonly isTooLate: (request: UpstreamRequest) => boolean;
  /** The problem of a caller whose deadline passes while the call waits. */
  readonly late: (request: UpstreamRequest, caller: Pick<QueueKind, "app" | "priority">) => Problem;
}

/** A call waits only if its deadline allows a wait that is longer by this factor, because new apps may arrive. */
const MARGIN = 1.2;
/** A waiting call is refused when its deadline does not even allow this part of its predicted wait. */
const HOPELESS_PART = 0.5;

export function createAdmission(options: AdmissionOptions): Admission {
  const { circuits, latency, clock, fraction, refused, isEnforced } = options;
  const leftMs = ({ waiting }: UpstreamRequest): number => waiting.deadlineAt() - clock.now();

  function refuse(request: UpstreamRequest, expectation: Expectation): Problem {
    const app = appsOf(request)[0] ?? request.app;
    const { reason, problem } = refusalOf(expectation, app, fraction());
    refused(app, reason, isEnforced());
    if (expectation.cause !== undefined) circuits.refused(expectation.cause);
    return problem;
  }

  return {
    expect: (kind, call) => expectIn(options, options.view(), { kind, call }),
    check(request) {
      const call = callOf(request);
      const view = options.view();
      const kinds = kindsOf(request);
      const isHopeless = (kind: QueueKind): boolean =>
        expectIn(options, view, { kind, call }).forMs > 0 &&
        expectIn(options, view, { kind, call, isCautious: true }).forMs * MARGIN + latency.p99Ms() >
          leftMs(request);
      const isStopped = circuits.passage(call).kind === "refuse";
      const isRefused = isStopped || (!options.isJustCutOff() && kinds.every(isHopeless));
      const [first] = kinds.map((kind) => expectIn(options, view, { kind, call }));
      if (first === undefined || !isRefused) return;
      const problem = refuse(request, first);
      if (isEnforced()) throw problem;
    },
    stopped(request) {
      if (!isEnforced()) return undefined;
      const passage = circuits.passage(callOf(request));
      if (!("until" in passage)) return undefined;
      const forMs = Math.max(1, passage.until - clock.monotonic());
      const isDoomed = passage.kind === "refuse" || forMs + latency.p99Ms() > leftMs(request);
      return isDoomed
        ? refuse(request, { forMs, why: "cool-off", isOverShare: false, cause: passage.cause })
        : undefined;
    },
    hopeless(view, request, places) {
      if (!isEnforced()) return undefined;
      const call = callOf(request);
      const expectations = kindsOf(request).map((kind, index) =>
        expectIn(options, view, { kind, call, here: places[index] }),
      );
      const isHopeless = expectations.every(
        ({ forMs }) => forMs > 0 && forMs * HOPELESS_PART + latency.p99Ms() > leftMs(request),
      );
      return isHopeless ? expectations[0] : undefined;
    },
    refuse,
    isTooLate: (request) => isEnforced() && leftMs(request) < latency.p99Ms(),
    late(request, { app, priority }) {
      // Refreshes and prefetches have no caller that notices.
      if (priority === "interactive" || priority === "background") refused(app, "deadline", true);
      const kind = { app, priority, resource: request.resource };
      // When the caller tries again, this call is not ahead of it.
      const expectation = isEnforced()
        ? expectIn(options, options.view(request), { kind, call: callOf(request) })
        : AT_ONCE;
      return lateRefusalOf(expectation, app, fraction());
    },
  };
}

function expectIn(
  options: AdmissionOptions,
  view: View,
  { kind, call, ...place }: { readonly kind: QueueKind; readonly call: CircuitCall } & Place,
): Expectation {
  const { at, why, isOverShare, ahead } = predict(view, kind, place);
  const freeAt = Math.max(at, roomAt(options, view, ahead), options.blockedUntil());
  const passage = options.circuits.passage(call);
  if ("until" in passage && (passage.kind === "refuse" || passage.until >= freeAt)) {
    const forMs = Math.max(1, passage.until - view.now);
    return { forMs, why: "cool-off", isOverShare, cause: passage.cause };
  }
  return { forMs: Math.max(0, freeAt - view.now), why: freeAt > at ? "budget" : why, isOverShare };
}

/** With `budget.mode: observe`, nothing waits for the budget. */
const AT_ONCE: Expectation = { forMs: 0, why: "budget", isOverShare: false };

/** When calls in flight have ended and leave room for a call, behind the `ahead` calls that go first. */
function roomAt({ concurrency, inFlight, latency }: AdmissionOptions, view: View, ahead: number): number {
  const here = view.waiting.reduce((sum, { count }) => sum + count, 0);
  const excess = Math.min(ahead, here) + 1 - (concurrency() - inFlight());
  return excess > 0 ? view.now + latency.meanMs() * Math.ceil(excess / concurrency()) : view.now;
}

/** The apps that wait for a call. It may be charged to any of them. Without a caller: the app that started it. */
export function appsOf({ app, waiting }: UpstreamRequest): readonly string[] {
  const apps = waiting.apps();
  return apps.length === 0 ? [app] : apps;
}

export function kindsOf(request: UpstreamRequest): readonly QueueKind[] {
  const priority = request.waiting.priority();
  return appsOf(request).map((app) => ({ app, priority, resource: request.resource }));
}

export function callOf({ resource, query, cause }: UpstreamRequest): CircuitCall {
  return { resource, question: query, cause };
}

/** How long a call to the upstream usually takes, computed from the last 200 answers of the last minute. */
export interface Latency {
  readonly add: (durationMs: number) => void;
  /** 99 % of calls take no longer. 0 when there are no answers. */
  readonly p99Ms: () => number;
  readonly meanMs: () => number;
}

const REMEMBERED = 200;
const REMEMBERED_MS = 60_000;
/** The figures are computed again after this time, or earlier if more than this part of the answers is new. */
const COMPUTED_FOR_MS = 1_000;
const COMPUTED_FOR_PART = 0.1;

/** @param now monotonic milliseconds */
export function createLatency(now: () => number): Latency {
  let answers: { readonly at: number; readonly durationMs: number }[] = [];
  let newAnswers = 0;
  let known = { until: Number.NEGATIVE_INFINITY, p99Ms: 0, meanMs: 0 };

  function compute(): typeof known {
    const at = now();
    if (at < known.until && newAnswers <= answers.length * COMPUTED_FOR_PART) return known;
    const since = at - REMEMBERED_MS;
    if ((answers[0]?.at ?? since) < since) answers = answers.filter((answer) => answer.at >= since);
    const sorted = Float64Array.from(answers, ({ durationMs }) => durationMs).toSorted();
    const sum = sorted.reduce((all, ms) => all + ms, 0);
    newAnswers = 0;
    known = {
      until: at + COMPUTED_FOR_MS,
      p99Ms: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0,
      meanMs: sum / Math.max(1, sorted.length),
    };
    return known;
  }

  return {
    add(durationMs) {
      answers.push({ at: now(), durationMs });
      if (answers.length > REMEMBERED) answers.shift();
      newAnswers++;
    },
    p99Ms: () => compute().p99Ms,
    meanMs: () => compute().meanMs,
  };
}

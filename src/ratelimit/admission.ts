/** Which calls are refused at once, or while they wait, and with which problem. */
import type { Problem } from "../errors.ts";
import type { Clock } from "../process/clock.ts";
import type { UpstreamRequest } from "../types.ts";
import type { CircuitCall, Circuits } from "./circuits.ts";
import type { QueueKind } from "./fair-queue.ts";
import type { Latency } from "./latency.ts";
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
  /** The limiter said that nobody gets a permit before. */
  readonly blockedUntil: () => number;
  /** Redis may be back in a moment: calls that come now are not refused for its absence. */
  readonly isJustCutOff: () => boolean;
  /** @param isEnforced whether the call was refused, or only would have been (`budget.mode: observe`) */
  readonly refused: (app: string, reason: RefusalReason | "deadline", isEnforced: boolean) => void;
}

export interface Admission {
  /** How long a call that came now would wait for circuits, a permit and a slot. */
  readonly expect: (kind: QueueKind, call: CircuitCall) => Expectation;
  /** Throws the problem of a call that circuits stop, or whose answer would come too late. */
  readonly check: (order: UpstreamRequest) => void;
  /** The problem of a waiting call that circuits stop now. */
  readonly stopped: (order: UpstreamRequest) => Problem | undefined;
  /**
   * What a waiting call would wait for whose permit would come too late, by what is known now.
   * @param places for each app that waits for the call: how many of its calls go first
   */
  readonly hopeless: (
    view: View,
    order: UpstreamRequest,
    places: readonly number[],
  ) => Expectation | undefined;
  /** Counts a refusal. @returns its problem */
  readonly refuse: (order: UpstreamRequest, expectation: Expectation) => Problem;
  /** Whether a call is sent too late to be answered before its deadline. */
  readonly isTooLate: (order: UpstreamRequest) => boolean;
  /** The problem of a caller whose deadline passes while the call waits. */
  readonly late: (order: UpstreamRequest, caller: Pick<QueueKind, "app" | "priority">) => Problem;
}

/**
 * A call waits only where a wait that is longer by this factor fits: predictions go by the last moments, and apps may
 * come that were not there.
 */
const MARGIN = 1.2;
/** A call that waits is given up when even this part of its predicted wait does not fit any more. */
const SURELY = 0.5;

export function createAdmission(options: AdmissionOptions): Admission {
  const { circuits, latency, clock, fraction, refused, isEnforced } = options;
  const leftMs = ({ waiting }: UpstreamRequest): number => waiting.deadlineAt() - clock.now();

  function refuse(order: UpstreamRequest, expectation: Expectation): Problem {
    const app = appsOf(order)[0] ?? order.app;
    const { reason, problem } = refusalOf(expectation, app, fraction());
    refused(app, reason, isEnforced());
    if (expectation.cause !== undefined) circuits.refused(expectation.cause);
    return problem;
  }

  return {
    expect: (kind, call) => expectIn(options, options.view(), { kind, call }),
    check(order) {
      const call = callOf(order);
      const view = options.view();
      const kinds = kindsOf(order);
      const isHopeless = (kind: QueueKind): boolean =>
        expectIn(options, view, { kind, call }).forMs > 0 &&
        expectIn(options, view, { kind, call, isCautious: true }).forMs * MARGIN + latency.p99Ms() >
          leftMs(order);
      const isStopped = circuits.passage(call).kind === "refuse";
      const isRefused = isStopped || (!options.isJustCutOff() && kinds.every(isHopeless));
      const [first] = kinds.map((kind) => expectIn(options, view, { kind, call }));
      if (first === undefined || !isRefused) return;
      const problem = refuse(order, first);
      if (isEnforced()) throw problem;
    },
    stopped(order) {
      if (!isEnforced()) return undefined;
      const passage = circuits.passage(callOf(order));
      if (!("until" in passage)) return undefined;
      const forMs = Math.max(1, passage.until - clock.monotonic());
      const isDoomed = passage.kind === "refuse" || forMs + latency.p99Ms() > leftMs(order);
      return isDoomed
        ? refuse(order, { forMs, why: "cool-off", isOverShare: false, cause: passage.cause })
        : undefined;
    },
    hopeless(view, order, places) {
      if (!isEnforced()) return undefined;
      const call = callOf(order);
      const expectations = kindsOf(order).map((kind, index) =>
        expectIn(options, view, { kind, call, here: places[index] }),
      );
      const isHopeless = expectations.every(
        ({ forMs }) => forMs > 0 && forMs * SURELY + latency.p99Ms() > leftMs(order),
      );
      return isHopeless ? expectations[0] : undefined;
    },
    refuse,
    isTooLate: (order) => isEnforced() && leftMs(order) < latency.p99Ms(),
    late(order, { app, priority }) {
      // Work that nobody waits for gives up after a while, and is nobody's loss.
      if (priority === "interactive" || priority === "background") refused(app, "deadline", true);
      const kind = { app, priority, resource: order.resource };
      // The call itself is not ahead of the caller when it comes back.
      const expectation = isEnforced()
        ? expectIn(options, options.view(order), { kind, call: callOf(order) })
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
  const freeAt = Math.max(at, slotAt(options, view, ahead), options.blockedUntil());
  const passage = options.circuits.passage(call);
  if ("until" in passage && (passage.kind === "refuse" || passage.until >= freeAt)) {
    const forMs = Math.max(1, passage.until - view.now);
    return { forMs, why: "cool-off", isOverShare, cause: passage.cause };
  }
  return { forMs: Math.max(0, freeAt - view.now), why: freeAt > at ? "budget" : why, isOverShare };
}

/** Where the budget is only observed, nothing waits for it. */
const AT_ONCE: Expectation = { forMs: 0, why: "budget", isOverShare: false };

/** When one of the calls in progress has made room, behind those that go first. */
function slotAt({ concurrency, inFlight, latency }: AdmissionOptions, view: View, ahead: number): number {
  const here = view.waiting.reduce((sum, { count }) => sum + count, 0);
  const excess = Math.min(ahead, here) + 1 - (concurrency() - inFlight());
  return excess > 0 ? view.now + latency.meanMs() * Math.ceil(excess / concurrency()) : view.now;
}

/** The apps that wait for a call, each of which may pay for it; the app that started it where nobody waits. */
export function appsOf({ app, waiting }: UpstreamRequest): readonly string[] {
  const apps = waiting.apps();
  return apps.length === 0 ? [app] : apps;
}

export function kindsOf(order: UpstreamRequest): readonly QueueKind[] {
  const priority = order.waiting.priority();
  return appsOf(order).map((app) => ({ app, priority, resource: order.resource }));
}

export function callOf({ resource, query, cause }: UpstreamRequest): CircuitCall {
  return { resource, question: query, cause };
}

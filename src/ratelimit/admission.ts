/** Whether a call may wait for its permit, and which problem a refused caller gets. docs/fairness.md explains the rules. */
import { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import type { Priority } from "../telemetry/events.ts";
import type { CircuitCall, Circuits, Stop } from "./circuits/circuits.ts";
import { earliest, isHeldBack, type Queued } from "./fairness/forecast.ts";
import { Promises, type WaitingCall } from "./fairness/promises.ts";
import { dayFreeAt, type Situation, situationOf } from "./fairness/shares.ts";
import type { PartOptions } from "./budget-options.ts";
import { type Expectation, refusalOf, retryAfterSeconds } from "./refusals.ts";
import { type AppCall, chargesOf, type UpstreamRequest } from "./call-facts.ts";

interface AdmissionOptions extends PartOptions {
  readonly circuits: Circuits;
  /** The calls that wait here. */
  readonly waiting: ReadonlySet<WaitingCall>;
}

type Charges = [AppCall, ...AppCall[]];

/** A limiter that cannot reach Redis is expected to reach it again after this time. */
const AWAY_MS = 2_000;
/** Redis may only be restarting, so calls that need it wait. They are refused when it has been away for this long. */
const PATIENCE_MS = 3_000;
/** The weight of the latest answer in the usual latency. */
const LEARNED = 0.1;
/** Few answers take longer than this many times the usual latency. */
const SLOW = 2;
/** A call takes some milliseconds to depart. One that departs within this time has not waited. */
const AT_ONCE_MS = 100;

export class Admission {
  readonly promises: Promises;
  readonly #options: AdmissionOptions;
  readonly #now: () => number;
  #awaySince = Number.POSITIVE_INFINITY;
  #latencyMs = 0;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#now = options.clock.monotonic;
    this.promises = new Promises(options);
  }

  /** Learns how long an answer took. */
  answered(durationMs: number): void {
    this.#latencyMs += (durationMs - this.#latencyMs) * LEARNED;
  }

  readonly isRedisAway = (): boolean => isAway(this.#options.limiter.state());

  /** What decisions are based on now. */
  situation(): Situation {
    const { limiter, apps, config } = this.#options;
    const state = limiter.state();
    const now = this.#now();
    this.promises.hear(state.newsElsewhere);
    this.#awaySince = isAway(state) ? Math.min(this.#awaySince, now) : Number.POSITIVE_INFINITY;
    return situationOf({ state, asked: this.promises.asked(), apps, reserve: config().reserve, now });
  }

  /**
   * How long a new call of an app would wait, and for what. In observe mode no window delays a call.
   * @param leftMs until its deadline
   */
  expect(app: string, resource: Resource, leftMs = Number.POSITIVE_INFINITY): Expectation {
    const { apps, config } = this.#options;
    const priority = apps.priorityOf(app);
    const call: CircuitCall = { resource, query: "", cause: "miss" };
    const expected = this.#expect(call, [{ app, priority }], false, leftMs);
    const isObserved = expected.why !== "cool-off" && config().mode === "observe";
    return isObserved ? { forMs: 0, why: expected.why } : expected;
  }

  /**
   * @param takenAt the instant for which the caller was told to come back
   * @returns when the call is likely to get its permit; its problem if a circuit refuses it, if its permit would come too late,
   *   or if it needs Redis, which has been away for long
   */
  plan(request: UpstreamRequest, takenAt?: number): number | Problem {
    const isDue = takenAt !== undefined;
    const expected = this.#expect(request, chargesOf(request), isDue, this.leftMs(request));
    const at = takenAt ?? this.#now() + expected.forMs;
    if (expected.mayWait !== false) return at;
    // It cannot keep its place, so it gets a new one behind those that were promised since.
    if (takenAt !== undefined) return this.plan(request);
    return this.#refuse(request, expected) ?? at;
  }

  /** The problem of a caller whose deadline passes while the call waits. */
  late(request: UpstreamRequest, caller: AppCall): Problem {
    const { apps, observer, fraction, config, waiting } = this.#options;
    const { app, priority } = caller;
    // The caller of a retry gets the first attempt's error.
    if (hasCaller(priority) && request.cause !== "retry")
      observer.refused(apps.labelOf(app), "deadline", true);
    // In observe mode no window delays a call. It usually waits because too many calls are in flight.
    const why: Expectation =
      config().mode === "observe" ? { forMs: 0, why: "budget" } : this.#wait(request, [caller], false);
    const { code, details } = refusalOf(why, app, fraction());
    // The time until the waiting calls are answered, with `concurrency` calls in flight.
    const answeredMs = (waiting.size * this.#latencyMs) / config().concurrency;
    const seconds = Math.max(details.retryAfterSeconds ?? 0, retryAfterSeconds(answeredMs));
    return new Problem(code, { ...details, late: true, retryAfterSeconds: seconds });
  }

  /** Whether its answer is likely to come too late because the call has waited. Then it would waste its permit. */
  isLate({ request, enteredAt }: WaitingCall): boolean {
    const hasWaited = this.#now() > enteredAt + AT_ONCE_MS;
    const answerMs = hasWaited && hasCaller(request.waiting.priority()) ? this.#latencyMs : 0;
    return this.leftMs(request) <= answerMs;
  }

  readonly leftMs = ({ waiting }: UpstreamRequest): number =>
    waiting.deadlineAt() - this.#options.clock.now();

  /** @param leftMs until the deadline. A call does not wait if its answer is likely to come later. */
  #expect(call: CircuitCall, charges: Charges, isDue: boolean, leftMs: number): Expectation {
    const expected = this.#wait(call, charges, isDue);
    const { forMs, atMostMs = forMs } = expected;
    const answerMs = hasCaller(charges[0].priority) ? SLOW * this.#latencyMs : 0;
    return forMs > 0 && atMostMs + answerMs > leftMs ? { ...expected, mayWait: false } : expected;
  }

  /**
   * How long a call would wait, and for what. If several apps may pay for it, the one with the shortest wait counts.
   * @param isDue whether its caller was told to come back now
   */
  #wait(call: CircuitCall, charges: Charges, isDue: boolean): Expectation {
    const stop = this.#options.circuits.stopOf(call);
    if (stop?.mayWait === false) return this.#pauseOf(stop);
    const situation = this.situation();
    const { now, state } = situation;
    const all = charges.map((charge) => {
      const queued = this.#queuedBefore(call, charge.app, isDue);
      const at = earliest(situation, charge, queued);
      // A caller that was told to come back is let in if that is possible at all.
      const isSure = isDue || at === now;
      return { charge, at, latest: isSure ? at : earliest(situation, charge, queued, true) };
    });
    const { charge, at, latest } = all.reduce((a, b) => (b.at < a.at ? b : a));
    const forMs = at - now;
    if (stop !== undefined && (stop.until >= at || this.#options.config().mode === "observe"))
      return this.#pauseOf(stop);
    const mayWait = now < this.#awaySince + PATIENCE_MS;
    if (forMs > 0 && isAway(state)) return { forMs: Math.min(forMs, AWAY_MS), why: "redis-away", mayWait };
    const dayAt = dayFreeAt(charge.app, situation);
    if (dayAt > now && dayAt >= at) return { forMs, why: "per-day" };
    const why = forMs > 0 && isHeldBack(situation, charge) ? "share" : "budget";
    return { forMs, atMostMs: latest - now, why };
  }

  /** The calls that may go before a call. Later calls of the same app do not. */
  #queuedBefore(call: CircuitCall, app: string, isDue: boolean): Queued[] {
    const now = this.#now();
    // A caller that was told to come back is let in if that is possible at all, so promises to other callers, and calls
    // at other replicas, do not count.
    const queued = isDue ? [] : this.promises.queued();
    let isBefore = true;
    for (const { request, dueAt, enteredAt } of this.#options.waiting) {
      if (request === call) isBefore = false;
      const [charge] = chargesOf(request);
      if (request !== call && (isBefore || charge.app !== app))
        queued.push({ ...charge, from: now, dueAt, weight: this.promises.weightOf(enteredAt) });
    }
    return queued;
  }

  #pauseOf({ until, cause, mayWait }: Stop): Expectation {
    return { forMs: Math.max(1, until - this.#now()), why: "cool-off", cause, mayWait };
  }

  /**
   * Counts a refusal.
   * @returns the problem; `undefined` if `budget.mode` is `observe`. Circuits refuse calls in every mode, because the API itself
   *   needs the pause.
   */
  #refuse(request: UpstreamRequest, expected: Expectation): Problem | undefined {
    const { apps, fraction, observer, circuits, config } = this.#options;
    const { why, cause } = expected;
    const [{ app }] = chargesOf(request);
    const isEnforced = why === "cool-off" || config().mode === "enforce";
    const problem = refusalOf(expected, app, fraction());
    observer.refused(apps.labelOf(app), why, isEnforced);
    if (cause !== undefined) circuits.refused(cause);
    if (isEnforced && (why === "budget" || why === "share"))
      this.promises.promise(request, this.#now() + (problem.details.retryAfterSeconds ?? 0) * 1_000);
    return isEnforced ? problem : undefined;
  }
}

/** Whether a caller waits for the answer. No caller waits for a refresh or prefetch. */
const hasCaller = (priority: Priority): boolean => priority === "interactive" || priority === "background";

const isAway = ({ mode }: Situation["state"]): boolean => mode === "degraded" || mode === "joining";

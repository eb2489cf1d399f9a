/** Whether a call may wait for its permit, and which problem a refused caller gets. docs/fairness.md explains the rules. */
import { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import type { Priority } from "../telemetry/events.ts";
import type { CircuitCall, Circuits, Stop } from "./circuits/circuits.ts";
import { earliest, isHeldBack, type Queued } from "./fairness/forecast.ts";
import { Promises, type WaitingCall } from "./fairness/promises.ts";
import { dayFreeAt, type PlannedCall, type Situation, situationOf } from "./fairness/shares.ts";
import type { PartOptions } from "./budget-options.ts";
import { type Expectation, refusalOf, retryAfterSeconds } from "./refusals.ts";
import { type AppCall, chargesOf, type UpstreamRequest } from "./call-facts.ts";

interface AdmissionOptions extends PartOptions {
  readonly circuits: Circuits;
  /** The calls that wait here. */
  readonly waiting: ReadonlySet<WaitingCall>;
}

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
/** Other apps may overtake a call that waits. So beside other apps, waits are expected to be longer than forecast by this factor. */
const FACTOR = 1.75;

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
    const expected = this.#expect({ resource, query: "", cause: "miss" }, [{ app, priority }], false);
    if (expected.why !== "cool-off" && config().mode === "observe") return { forMs: 0, why: expected.why };
    const isTooLate = this.#isTooLate({ app, priority }, expected.forMs, leftMs);
    return isTooLate ? { ...expected, mayWait: false } : expected;
  }

  /**
   * @param takenAt the instant for which the caller was told to come back
   * @returns when the call is likely to get its permit; its problem if a circuit refuses it, if its permit would come too late,
   *   or if it needs Redis, which has been away for long
   */
  plan(request: UpstreamRequest, takenAt?: number): number | Problem {
    const expected = this.#expect(request, chargesOf(request), takenAt !== undefined);
    const { forMs, mayWait } = expected;
    const isLate = this.#isTooLate(chargesOf(request)[0], forMs, this.leftMs(request), takenAt !== undefined);
    const at = takenAt ?? this.#now() + forMs;
    if (mayWait !== false && !isLate) return at;
    // It cannot keep its place, so it gets a new one behind those that were promised since.
    if (takenAt !== undefined) return this.plan(request);
    return this.#refuse(request, expected) ?? at;
  }

  /**
   * Whether an answer is likely to come too late.
   * @param forMs how long the call waits
   * @param leftMs until the deadline
   * @param isDue whether its caller was told to come back now, and is let in if that is possible at all
   */
  #isTooLate({ app, priority }: AppCall, forMs: number, leftMs: number, isDue = false): boolean {
    const mayBeOvertaken =
      forMs > 0 && !isDue && [...this.promises.asked().keys()].some((other) => other !== app);
    const answerMs = hasCaller(priority) ? SLOW * this.#latencyMs : 0;
    return forMs > 0 && forMs * (mayBeOvertaken ? FACTOR : 1) + answerMs > leftMs;
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
      config().mode === "observe" ? { forMs: 0, why: "budget" } : this.#expect(request, [caller], false);
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

  /**
   * How long a call would wait, and for what. If several apps may pay for it, the one with the shortest wait counts.
   * @param isDue whether its caller was told to come back now
   */
  #expect(call: CircuitCall, charges: [AppCall, ...AppCall[]], isDue: boolean): Expectation {
    const stop = this.#options.circuits.stopOf(call);
    if (stop?.mayWait === false) return this.#pauseOf(stop);
    const situation = this.situation();
    const { now, state } = situation;
    const all = charges.map((charge) => {
      const planned = { ...charge, isDue };
      const queued = this.#queuedBefore(call, planned);
      return { planned, at: earliest(situation, planned, queued) };
    });
    const { planned, at } = all.reduce((a, b) => (b.at < a.at ? b : a));
    const forMs = at - now;
    if (stop !== undefined && (stop.until >= at || this.#options.config().mode === "observe"))
      return this.#pauseOf(stop);
    const mayWait = now < this.#awaySince + PATIENCE_MS;
    if (forMs > 0 && isAway(state)) return { forMs: Math.min(forMs, AWAY_MS), why: "redis-away", mayWait };
    const dayAt = dayFreeAt(planned.app, situation);
    if (dayAt > now && dayAt >= at) return { forMs, why: "per-day" };
    return { forMs, why: forMs > 0 && isHeldBack(situation, planned) ? "share" : "budget" };
  }

  /** The calls that may go before a call. Later calls of the same app do not. */
  #queuedBefore(call: CircuitCall, { app, isDue }: PlannedCall): Queued[] {
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

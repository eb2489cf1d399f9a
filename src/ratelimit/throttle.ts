/**
 * The throttle in front of every upstream call of this process. Bottleneck holds the queue and how many
 * calls are on their way at once; the allowance says when there is a place in the windows, and whose turn
 * it is.
 *
 * What Bottleneck queues are turns, not requests: whoever is first in the fair order when a turn comes and
 * there is a place takes both. So a request can be withdrawn, which Bottleneck's jobs cannot, and one that
 * comes late but has precedence is not behind those that were scheduled before it. Its reservoir and its
 * clustering are not used: they admit up to twice the limit across a refresh, and know one window only.
 *
 * A call that several apps wait for stands in the line of each of them, and takes the turn that comes first: that
 * app pays for it.
 */
import Bottleneck from "bottleneck";

import type { Problem } from "../errors.ts";
import type { UpstreamRequest, Priority, RefuseLate, SendEnd, Throttled } from "../types.ts";
import type { Clock } from "../process/clock.ts";
import type { Allowance, Expectation, Grant, Wish } from "./allowance.ts";
import type { Candidate } from "./arbiter.ts";
import { type Background, createBackground } from "./background.ts";
import { queryHash } from "../usage/ledger.ts";
import { createPatience, type Patience } from "./patience.ts";
import { lateRefusalOf, type RefusalReason, refusalOf } from "./refusal.ts";
import { createTurns, type Turns } from "./turns.ts";
import { createWaitingLine, type WaitingLine } from "./waiting-line.ts";

export interface ThrottleObserver {
  /**
   * A request was refused, or, where the budget is only watched, would have been. `deadline`: its caller's passed in
   * the queue.
   */
  readonly refused: (app: string, reason: RefusalReason | "deadline", isEnforced: boolean) => void;
  /** A call departed after waiting, in milliseconds, as this wish: its app pays. */
  readonly departed: (wish: Wish, waitedMs: number) => void;
}

/** `concurrency` and `mode` may change; `retune` is to be called then. */
export interface ThrottleOptions {
  readonly allowance: Allowance;
  /** Calls on their way at once. */
  readonly concurrency: number;
  /** `observe`: nothing waits for a place and nothing is refused; what would have been is reported. */
  readonly mode: "enforce" | "observe";
  readonly clock: Clock;
  readonly observer: ThrottleObserver;
}

export interface Throttle {
  readonly throttled: Throttled;
  readonly queueLength: (priority: Priority) => number;
  /** How long a request would wait that came now. */
  readonly expect: (candidate: Candidate) => Expectation;
  /** The settings have changed: those who wait go on under the new ones. */
  readonly retune: () => void;
  /** Lets nobody go any more: those who wait, and those who come, are told why. */
  readonly close: (why: Problem) => void;
}

interface Waiter {
  readonly order: UpstreamRequest;
  readonly patience: Patience;
  readonly depart: (grant: Grant) => Promise<void>;
}

type Job<T> = (ended: (end: SendEnd) => void) => Promise<T>;

export function createThrottle(options: ThrottleOptions): Throttle {
  const { allowance, clock, observer } = options;
  const queue = new Bottleneck({ maxConcurrent: options.concurrency });
  const line = createWaitingLine<Waiter>();
  const background = createBackground(() => options.concurrency);
  const isUnlimited = (): boolean => options.mode === "observe";
  const turns = createTurns({ allowance, line, clock, mayGo: background.mayGo, isUnlimited });

  const expect = (candidate: Candidate): Expectation =>
    allowance.expect(candidate, line.queued({ app: candidate.app }));
  const { refuseIfHopeless, refuseHopeless, refuseLate } = createRefusals(options, line, expect);
  let closedBecause: Problem | undefined;

  const reactions = [refuseHopeless, turns.changed];
  allowance.attach({ queued: () => line.queued(), changed: () => reactions.forEach((react) => react()) });

  async function throttled<T>(order: UpstreamRequest, job: Job<T>): Promise<T> {
    if (closedBecause !== undefined) throw closedBecause;
    refuseIfHopeless(order);
    const cameAt = clock.now();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    let tooLate: Problem | undefined;
    const waiter: Waiter = {
      order,
      patience: createPatience(order.waiting, clock, {
        gone: () => refusalOf(expect(candidateOf(order)), order.app).problem,
        late: () => (tooLate = refuseLate(waiter, candidateOf(order))),
      }),
      depart: (grant) => {
        observer.departed(grant.wish, clock.now() - cameAt);
        return run(allowance, clock, grant, job).then(resolve, reject);
      },
    };
    const stand = (): void => {
      if (line.stand(waiter, wishesOf(order))) turns.changed();
    };
    stand();
    // More urgent, it goes to the end of lines further ahead; another app's caller is a place in the line of that app.
    order.waiting.onChange(() => line.has(waiter) && stand());
    // What it was refused with takes time to get to those who wait; their own deadlines pass at that moment.
    order.waiting.inQueue((who) => (line.has(waiter) ? refuseLate(waiter, who) : tooLate));
    queue.schedule(takeTurn, turns, background).catch((error: unknown) => {
      // Nobody else would tell those who wait.
      for (const { patience } of line.all()) patience.end(asError(error));
    });
    try {
      return await Promise.race([promise, waiter.patience.rejected]);
    } finally {
      waiter.patience.stop();
      if (line.leave(waiter)) turns.changed();
    }
  }

  return {
    throttled,
    queueLength: line.length,
    expect,
    retune() {
      queue.updateSettings({ maxConcurrent: options.concurrency });
      turns.changed();
    },
    close(why) {
      closedBecause = why;
      for (const { patience } of line.all()) patience.end(why);
    },
  };
}

/** Waits for a turn, and for the departure of whoever gets it to have come to its end. */
async function takeTurn(turns: Turns<Waiter>, { began, ended }: Background): Promise<void> {
  const departure = await turns.next();
  if (departure === undefined) return;
  const { waiter, grant } = departure;
  waiter.patience.stop();
  const { priority } = grant.wish;
  began(priority);
  await waiter.depart(grant);
  ended(priority);
  turns.changed();
}

interface Refusals {
  /** Refuses one that comes and cannot wait so long; where the budget is only watched, that is reported alone. */
  readonly refuseIfHopeless: (order: UpstreamRequest) => void;
  /** Refuses those who cannot wait as long as the upstream is to be left alone. */
  readonly refuseHopeless: () => void;
  /** Refuses one whose deadline has passed while its call is in the line, and says what keeps the call there. */
  readonly refuseLate: (waiter: Waiter, who: Parameters<RefuseLate>[0]) => Problem;
}

function createRefusals(
  options: ThrottleOptions,
  line: WaitingLine<Waiter>,
  expect: (candidate: Candidate) => Expectation,
): Refusals {
  const { allowance, clock, observer } = options;
  const isEnforced = (): boolean => options.mode === "enforce";
  const isTooLong = ({ forMs }: Expectation, { waiting }: UpstreamRequest): boolean =>
    clock.now() + forMs > waiting.deadlineAt();
  const refuse = (app: string, expectation: Expectation): Problem => {
    const { reason, problem } = refusalOf(expectation, app);
    observer.refused(app, reason, isEnforced());
    return problem;
  };
  /** The kinds whose first would wait for the upstream's rest to be over, and for nothing else: asked once for each. */
  const restingKinds = (): Map<Candidate, Expectation & Pick<Candidate, "app">> =>
    new Map(
      line.kinds().flatMap((kind) => {
        const expectation = allowance.expect(kind, []);
        return expectation.why === "cool-off" ? [[kind, { ...expectation, app: kind.app }]] : [];
      }),
    );
  return {
    refuseIfHopeless(order) {
      const waits = candidatesOf(order).map((candidate) => ({
        ...candidate,
        expectation: expect(candidate),
      }));
      const [first] = waits;
      if (first === undefined || !waits.every(({ expectation }) => isTooLong(expectation, order))) return;
      const problem = refuse(first.app, first.expectation);
      if (isEnforced()) throw problem;
    },
    refuseHopeless() {
      // Only that: what the API asked for is not taken back. Any other wait may yet turn out shorter than predicted:
      // a place is given back, another app is not about any more, a replica is not cut off any more.
      if (!isEnforced()) return;
      const resting = restingKinds();
      for (const waiter of resting.size > 0 ? line.all() : []) {
        const waits = line.kindsOf(waiter).map((kind) => resting.get(kind));
        const [first] = waits;
        const isHopeless = waits.every((wait) => wait !== undefined && isTooLong(wait, waiter.order));
        if (isHopeless && first !== undefined) waiter.patience.end(refuse(first.app, first));
      }
    },
    refuseLate(waiter, { app, priority }) {
      if (isOfCaller(priority)) observer.refused(app, "deadline", true);
      const candidate = { app, priority, resource: waiter.order.resource };
      // Whoever asks again will not have this call ahead of it, but all others.
      const before = line.queued({ app, without: waiter });
      return lateRefusalOf(isEnforced() ? allowance.expect(candidate, before) : AT_ONCE, app);
    },
  };
}

/** Where the budget is only watched, it keeps nobody. */
const AT_ONCE: Expectation = { forMs: 0, why: "budget", isOverShare: false };

/** Not work that nobody waits for: that gives up after a while and is nobody's loss. */
function isOfCaller(priority: Priority): boolean {
  return priority === "interactive" || priority === "background";
}

/** An order as far as its turn is concerned, for the app that started it, by how urgent it is now. */
function candidateOf({ app, resource, waiting }: UpstreamRequest): Candidate {
  return { app, resource, priority: waiting.priority() };
}

/** As what it may go: an app's, for each that waits for it now. */
function candidatesOf(order: UpstreamRequest): readonly Candidate[] {
  const candidate = candidateOf(order);
  const apps = order.waiting.apps();
  return apps.length === 0 ? [candidate] : apps.map((app) => ({ ...candidate, app }));
}

function wishesOf(order: UpstreamRequest): readonly Wish[] {
  const query = queryHash(order.query);
  return candidatesOf(order).map((candidate) => ({ ...candidate, cause: order.cause, query }));
}

/** Runs a job in its place, and sees to it that the place is settled whatever becomes of it. */
async function run<T>(allowance: Allowance, clock: Clock, grant: Grant, job: Job<T>): Promise<T> {
  const startedAt = clock.monotonic();
  let isSettled = false;
  const settle = (end: SendEnd): void => {
    if (!isSettled) allowance.settle(grant, end);
    isSettled = true;
  };
  try {
    return await job(settle);
  } finally {
    const durationMs = clock.monotonic() - startedAt;
    settle({ status: "reset", arrivedAfterMs: durationMs, durationMs });
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/**
 * The cache stage: what is held where the rules allow it, else what one flight brings.
 */
import { Problem } from "../errors.ts";
import type { Answer, Cause, Entry, Forwarded, Question, ServeNote } from "../types.ts";
import type { Clock } from "../process/clock.ts";
import type { Random } from "../process/random.ts";
import type { Failures } from "./failures.ts";
import { type CacheRules, isFresh } from "./freshness.ts";
import { isAnothersRefusal, type Obtain } from "./load.ts";
import { type Asked, decide, type Decision } from "./policy.ts";
import type { Refresh } from "./refresh.ts";
import type { Found, Tiers } from "./store/tiered.ts";

export interface CacheOptions {
  readonly tiers: Pick<Tiers, "lookup" | "judge" | "purgeEpoch">;
  /** What comes next: one flight for whoever wants a key. */
  readonly obtain: Obtain;
  readonly refresh: Refresh;
  readonly failures: Failures;
  /** The part of the budget that is left for a resource, from 0 to 1. */
  readonly budgetLeft: (resource: Question["query"]["resource"]) => number;
  /** Whether the upstream is left alone for now: it asked for that, or shows no sign of life. */
  readonly isCoolingOff: (question: Question) => boolean;
  readonly rules: () => CacheRules;
  readonly clock: Clock;
  readonly random: Pick<Random, "fraction">;
}

/** @returns the answer to a question, from the cache or from one flight; rejects with a `Problem`. */
export type Cache = (question: Question) => Promise<Answer>;

export function createCache(options: CacheOptions): Cache {
  const { tiers, refresh, failures, rules, clock } = options;
  const { ruling, firstRuling } = createRulings(options);
  const waitForFlight = createWaitForFlight(options);

  /** What is held; whether that is a hit or stale shows in its time. */
  function served(held: Found, note: ServeNote | undefined, isUpdating: boolean): Answer {
    const { entry, tier, isPurged } = held;
    const isHit = !isPurged && isFresh(entry, rules(), clock.now());
    const outcome = isHit ? "hit" : isUpdating ? "updating" : "stale";
    return { entry, tier, stored: true, outcome, forwarded: undefined, note };
  }

  /** What a flight brings, or what is held where it brings nothing. */
  async function fetched(question: Question, held: Found | undefined, why: Forwarded): Promise<Answer> {
    const { key, request } = question;
    const giveUpAt = clock.now() + rules().maxWaitForFreshMs;
    const standIn = why === "stale" ? ruling(question, held, LEFT_ALONE) : undefined;
    const hasStandIn = held !== undefined && standIn?.kind === "serve";
    if (hasStandIn && options.isCoolingOff(question)) return served(held, standIn.note, false);
    const deadlineAt = hasStandIn ? Math.min(request.deadlineAt, giveUpAt) : request.deadlineAt;
    try {
      return await waitForFlight(question, held, why, deadlineAt);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // It may have been purged while its caller waited.
      const left = held && tiers.judge(key, held);
      const decision = ruling(question, left, error);
      if (left === undefined || decision.kind !== "serve") throw error;
      if (deadlineAt === giveUpAt && isTooSlowForAll(error)) failures.tooSlow(key, error, clock.steady());
      return served(left, decision.note, false);
    }
  }

  return async function answer(question) {
    const held = await tiers.lookup(question.key);
    const decision = firstRuling(question, held);
    if (decision.kind === "refuse") throw decision.problem;
    // What is served is held; where nothing is, the rules say nothing else.
    if (decision.kind === "fetch" || held === undefined)
      return await fetched(question, held, decision.kind === "fetch" ? decision.why : "miss");
    const isUpdating = decision.kind === "serveAndRefresh";
    if (isUpdating) void refresh(question, held.entry, "refresh");
    return served(held, decision.note, isUpdating);
  };
}

interface Rulings {
  /** The rules' word on what is held, given how fetching failed where it did. */
  readonly ruling: (question: Question, held: Found | undefined, failed: Problem | undefined) => Decision;
  /** The same where nothing was tried yet. */
  readonly firstRuling: (question: Question, held: Found | undefined) => Decision;
}

function createRulings({ failures, budgetLeft, rules, clock, random }: CacheOptions): Rulings {
  const ruling: Rulings["ruling"] = (question, held, failed) => {
    const { resource } = question.query;
    const upstream = { failed, budgetLeft: () => budgetLeft(resource), dice: random.fraction() };
    return decide(held, askedBy(question), upstream, rules(), clock.now());
  };
  return {
    ruling,
    firstRuling(question, held) {
      const standing = held && failures.standing(question.key, clock.steady());
      const decision = ruling(question, held, standing);
      // Where nothing can be given in its place, what failed a moment ago is tried again.
      return standing !== undefined && decision.kind === "refuse"
        ? ruling(question, held, undefined)
        : decision;
    },
  };
}

type WaitForFlight = (
  question: Question,
  held: Found | undefined,
  why: Forwarded,
  deadlineAt: number,
) => Promise<Answer>;

function createWaitForFlight({ obtain, tiers }: CacheOptions): WaitForFlight {
  return async function waitForFlight(question, held, why, deadlineAt) {
    const purgeEpoch = tiers.purgeEpoch();
    const isFromBefore = (entry: Entry): boolean =>
      entry.purgeEpoch < purgeEpoch && isPurged(tiers, question.key, entry);
    const { gone, priority, app } = question.request;
    const wanted = {
      question,
      held: held?.entry,
      cause: CAUSES[why],
      waiter: { app, deadlineAt, gone, priority },
    };
    const flight = await obtain(wanted).catch((error: unknown) => {
      if (isAnothersRefusal(error, app)) return undefined;
      throw error;
    });
    // Who launched it had no place for it; this one may have. What was purged before this one came, it does not get.
    if (flight === undefined || isFromBefore(flight.flown.value.entry))
      return await waitForFlight(question, held, why, deadlineAt);
    const { flown, collapsed } = flight;
    const outcome = collapsed ? "collapsed" : OUTCOMES[flown.how];
    const isHit = outcome === "hit";
    const tier = isHit ? flown.value.tier : undefined;
    return { ...flown.value, outcome, tier, forwarded: isHit ? undefined : why, note: undefined };
  };
}

/**
 * Whether one has waited as long as anybody would, on the way or for a place: the next one need not. Where the app's
 * own share was what kept it, others may be faster.
 */
function isTooSlowForAll({ code, details }: Problem): boolean {
  return code === "deadline-exceeded" || (details.late === true && details.ofApp === undefined);
}

function isPurged({ judge }: Pick<Tiers, "judge">, key: string, entry: Entry): boolean {
  return judge(key, { entry, tier: "memory", isPurged: false })?.isPurged !== false;
}

function askedBy({ query, request: { directives, mayForceRefresh } }: Question): Asked {
  return { query, directives, mayForceRefresh };
}

/** What a caller would be told who had nothing else. */
const LEFT_ALONE = new Problem("upstream-unavailable", { refusedHere: true });

const CAUSES: Record<Forwarded, Cause> = { miss: "miss", stale: "miss", request: "forced" };

const OUTCOMES = { found: "hit", fetched: "miss", followed: "collapsed" } as const;

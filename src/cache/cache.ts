/**
 * The cache stage: serves the cached answer if the rules allow it, and otherwise the result of one flight.
 */
import { Problem } from "../errors.ts";
import type {
  Forwarded,
  ServeNote,
  Tier,
  CacheOutcome,
  WhyNotStored,
  PageSaving,
} from "../telemetry/events.ts";
import type { Question } from "../query/question.ts";
import type { Entry } from "./entry.ts";
import type { Clock } from "../process/clock.ts";
import type { Checks } from "./lifetimes/checks.ts";
import type { Failures } from "./failures.ts";
import { type CacheRules, isFresh } from "./freshness.ts";
import type { Lifetimes } from "./lifetimes/lifetimes.ts";
import type { Load } from "./load.ts";
import { decide, type Decision } from "./policy.ts";
import type { Refresh } from "./refresh.ts";
import type { Found, Tiers } from "./store/tiered.ts";

/** The answer of the cache stage. */
export interface Answer {
  readonly entry: Entry;
  readonly outcome: CacheOutcome;
  /** The store that had the entry, if it was cached. */
  readonly tier: Tier | undefined;
  readonly stored: true | WhyNotStored;
  /** Why the gateway asked the upstream, if it did. */
  readonly forwarded: Forwarded | undefined;
  /** The upstream's status if it differs from the entry's, which means 304. */
  readonly forwardedStatus?: number | undefined;
  /** Why the answer is not newer. The code of a problem means that the caller would otherwise have got that problem. */
  readonly note: ServeNote | undefined;
  /** The key of the entry in memory, if it differs from that of the question. */
  readonly keptAs?: string;
  /** Why the answer cost no upstream call, if the answer itself was not cached. */
  readonly saved?: PageSaving;
}

export interface CacheOptions {
  readonly tiers: Pick<Tiers, "lookup" | "peek" | "judge">;
  readonly load: Load;
  readonly refresh: Refresh;
  readonly failures: Failures;
  readonly checks: Pick<Checks, "isDue" | "run">;
  readonly lifetimes: Pick<Lifetimes, "checked">;
  /** Whether no calls are sent to the upstream for now, because it asked for a pause or does not respond. */
  readonly isCoolingOff: (question: Question) => boolean;
  readonly rules: () => CacheRules;
  readonly clock: Clock;
}

interface CacheStage {
  /** @returns the answer to a question, from the cache or from one flight; rejects with a `Problem` */
  readonly cache: (question: Question) => Promise<Answer>;
  /**
   * Answers a question without waiting. Call it in the tick in which the request arrived.
   * @returns the answer, if it is in memory and the rules allow serving it; `undefined`: use `cache` instead
   */
  readonly answerAtOnce: (question: Question) => Answer | undefined;
}

export function createCache(options: CacheOptions): CacheStage {
  const { tiers, failures, rules, clock } = options;
  const { ruling, firstRuling } = createRulings(options);
  const { serve, served } = createServe(options);

  /** Waits for a flight; serves the cached answer if the flight fails and the rules allow it. */
  async function fetch(question: Question, cached: Found | undefined, why: Forwarded): Promise<Answer> {
    const { key, request } = question;
    const giveUpAt = clock.now() + rules().maxWaitForFreshMs;
    const fallback = why === "stale" ? ruling(question, cached, NOT_CALLED) : undefined;
    const hasFallback = cached !== undefined && fallback?.kind === "serve";
    if (hasFallback && options.isCoolingOff(question)) return serve(question, cached, fallback.note, false);
    const deadlineAt = hasFallback ? Math.min(request.deadlineAt, giveUpAt) : request.deadlineAt;
    try {
      return await waitForFlight(options.load, question, cached, why, deadlineAt);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // The cached answer may have been purged meanwhile.
      const left = cached && tiers.judge(key, cached);
      const decision = ruling(question, left, error);
      if (left === undefined || decision.kind !== "serve") throw error;
      if (deadlineAt === giveUpAt && isTooSlowForAll(error)) failures.tooSlow(key, error, clock.monotonic());
      return serve(question, left, decision.note, false);
    }
  }

  return {
    async cache(question) {
      const span = question.request.trace?.begin("cache lookup", { query: question.canonicalQuery });
      const cached = await tiers.lookup(question.key);
      span?.end({ tier: cached?.tier ?? "none" });
      const now = clock.now();
      const decision = firstRuling(question, cached, now);
      if (decision.kind === "refuse") throw decision.problem;
      const why = decision.kind === "fetch" ? decision.why : "miss";
      return served(question, cached, decision, now) ?? (await fetch(question, cached, why));
    },
    answerAtOnce(question) {
      // The request arrived in this tick.
      const now = question.request.receivedAt;
      const cached = tiers.peek(question.key, now);
      if (cached) question.request.trace?.begin("cache lookup").end({ tier: cached.tier });
      return cached && served(question, cached, firstRuling(question, cached, now), now);
    },
  };
}

function createServe(options: CacheOptions) {
  const { refresh, checks, rules, clock } = options;
  const check = createCheck(options);

  /** Serves a cached answer, and counts the request. */
  function serve(
    question: Question,
    { entry, tier, isPurged }: Found,
    note: ServeNote | undefined,
    isUpdating: boolean,
    now = clock.now(),
  ): Answer {
    entry.served.count++;
    const isHit = !isPurged && isFresh(entry, rules(), now);
    if (isHit && checks.isDue("answer", question.query.resource)) check(question, entry);
    const outcome = isHit ? "hit" : isUpdating ? "updating" : "stale";
    return { entry, tier, stored: true, outcome, forwarded: undefined, note };
  }

  /** @returns the cached answer, if the decision is to serve it */
  function served(
    question: Question,
    cached: Found | undefined,
    decision: Decision,
    now: number,
  ): Answer | undefined {
    if (cached === undefined || decision.kind === "refuse" || decision.kind === "fetch") return undefined;
    const isUpdating = decision.kind === "serveAndRefresh";
    if (isUpdating) void refresh(question, cached.entry, "refresh");
    return serve(question, cached, decision.note, isUpdating, now);
  }

  return { serve, served };
}

/** @returns a function that fetches a fresh answer again and compares the two, to measure the share of out-of-date answers */
function createCheck({ tiers, refresh, checks, lifetimes }: CacheOptions) {
  return (question: Question, { etag, status }: Entry): void => {
    if (status !== 200) return;
    void checks.run("answer", async (spend) => {
      spend();
      const found = await tiers.lookup(question.key);
      if ((await refresh(question, found?.entry, "refresh")) !== "refreshed") return;
      const now = await tiers.lookup(question.key);
      if (now !== undefined) lifetimes.checked(now.entry.etag === etag);
    });
  };
}

function createRulings({ failures, rules, clock }: CacheOptions) {
  /** Applies the rules to the cached answer. @param failed how fetching failed, if it did */
  function ruling(
    { query, request: { directives, mayForceRefresh } }: Question,
    cached: Found | undefined,
    failed: Problem | undefined,
    now = clock.now(),
  ): Decision {
    return decide(cached, { query, directives, mayForceRefresh }, failed, rules(), now);
  }

  /** Applies the rules before a fetch is tried. A recent failure of the same key counts as a failed fetch. */
  function firstRuling(question: Question, cached: Found | undefined, now: number): Decision {
    const recent = cached && failures.isAny() ? failures.recent(question.key, clock.monotonic()) : undefined;
    const decision = ruling(question, cached, recent, now);
    // Without a cached answer to serve, the fetch is tried again although it failed a moment ago.
    return recent !== undefined && decision.kind === "refuse"
      ? ruling(question, cached, undefined, now)
      : decision;
  }

  return { ruling, firstRuling };
}

async function waitForFlight(
  load: Load,
  question: Question,
  cached: Found | undefined,
  why: Forwarded,
  deadlineAt: number,
): Promise<Answer> {
  const { gone, priority, app } = question.request;
  const { value, how, collapsed } = await load({
    question,
    cached: cached?.entry,
    cause: why === "request" ? "forced" : "miss",
    waiter: { app, deadlineAt, gone: gone(), priority },
  });
  const outcome = collapsed ? "collapsed" : OUTCOMES[how];
  const isHit = outcome === "hit";
  return {
    ...value,
    outcome,
    tier: isHit ? value.tier : undefined,
    forwarded: isHit ? undefined : why,
    note: undefined,
  };
}

/**
 * Whether the next callers should not wait either, because this one waited as long as any caller would. A wait
 * for the app's own share says nothing about other apps.
 */
function isTooSlowForAll({ code, details }: Problem): boolean {
  return code === "deadline-exceeded" || (details.late === true && details.ofApp === undefined);
}

/** The problem that a caller gets if the gateway does not call the upstream. */
const NOT_CALLED = new Problem("upstream-unavailable", { refusedHere: true });

const OUTCOMES = { found: "hit", fetched: "miss", followed: "collapsed" } as const;

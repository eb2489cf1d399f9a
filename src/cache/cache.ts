/**
 * The cache stage: serves the cached answer if the rules allow it, and otherwise the result of one flight.
 */
import { Problem } from "../errors.ts";
import type { Forwarded, ServeNote, CacheOutcome, PageSaving } from "../telemetry/events.ts";
import type { Question } from "../query/request.ts";
import type { Entry } from "./entry.ts";
import type { Checks } from "./lifetimes/checks.ts";
import type { Lifetimes } from "./lifetimes/learned-lifetimes.ts";
import type { Load, LoadedEntry, LoadOptions } from "./load.ts";
import type { Refresh } from "./refresh.ts";
import { decide, type Decision, type Serve } from "./serve-or-fetch.ts";
import type { Found } from "./store/tiered.ts";

/** The answer of the cache stage. */
export interface Answer extends LoadedEntry {
  readonly outcome: CacheOutcome;
  /** Why the gateway asked the upstream, if it did. */
  readonly forwarded: Forwarded | undefined;
  /** Why the answer is not newer. The code of a problem means that the caller would otherwise have got that problem. */
  readonly note: ServeNote | undefined;
  /** Until when a cached entry may be served, in epoch milliseconds. A reload may have shortened this since it was stored. */
  readonly endsAt?: number;
  /** The key of the entry in memory, if it differs from that of the question. */
  readonly keptAs?: string;
  /** Why the answer cost no upstream call, if the answer itself was not cached. */
  readonly saved?: PageSaving;
}

export interface CacheOptions extends Pick<LoadOptions, "tiers" | "failures" | "rules" | "clock"> {
  readonly load: Load;
  readonly refresh: Refresh;
  readonly checks: Checks;
  readonly lifetimes: Pick<Lifetimes, "checked">;
  /** Whether no calls are sent to the upstream for now, because it asked for a pause or does not respond. */
  readonly isCoolingOff: (question: Question) => boolean;
}

export class Cache {
  readonly #options: CacheOptions;

  constructor(options: CacheOptions) {
    this.#options = options;
  }

  /** @returns the answer to a question, from the cache or from one flight; rejects with a `Problem` */
  readonly answer = async (question: Question): Promise<Answer> => {
    const { tiers, clock } = this.#options;
    const span = question.request.trace?.begin("cache lookup", { query: question.canonicalQuery });
    const cached = await tiers.lookup(question.key);
    span?.end({ tier: cached?.tier ?? "none" });
    const decision = this.#firstRuling(question, cached, clock.now());
    if (decision.kind === "refuse") throw decision.problem;
    if (cached !== undefined && decision.kind !== "fetch") return this.#serve(question, cached, decision);
    return await this.#fetched(question, cached, decision.kind === "fetch" ? decision.why : "miss");
  };

  /**
   * Answers a question without waiting. Call it in the tick in which the request arrived.
   * @returns the answer, if it is in memory and the rules allow serving it; `undefined`: use `answer` instead
   */
  readonly answerAtOnce = (question: Question): Answer | undefined => {
    // The request arrived in this tick.
    const now = question.request.receivedAt;
    const cached = this.#options.tiers.peek(question.key, now);
    if (cached === undefined) return undefined;
    question.request.trace?.begin("cache lookup").end({ tier: cached.tier });
    const decision = this.#firstRuling(question, cached, now);
    if (decision.kind === "refuse" || decision.kind === "fetch") return undefined;
    return this.#serve(question, cached, decision);
  };

  /** Applies the rules before a fetch is tried. A recent failure of the same key counts as a failed fetch. */
  #firstRuling(question: Question, cached: Found | undefined, now: number): Decision {
    const { failures, rules, clock } = this.#options;
    const recent = cached && failures.recent(question.key, clock.monotonic());
    const decision = decide(cached, question, recent, rules(), now);
    // Without a cached answer to serve, the fetch is tried again although it failed a moment ago.
    return recent !== undefined && decision.kind === "refuse"
      ? decide(cached, question, undefined, rules(), now)
      : decision;
  }

  /** Serves a cached answer, and counts the request. */
  #serve(question: Question, { entry, tier }: Found, { kind, isFresh, note }: Serve): Answer {
    const { checks, refresh, rules } = this.#options;
    const isUpdating = kind === "serveAndRefresh";
    if (isUpdating) void refresh(question, entry, "refresh");
    entry.served.count++;
    if (isFresh && checks.isDue("answer", question.query.resource)) this.#check(question, entry);
    const outcome = isFresh ? "hit" : isUpdating ? "updating" : "stale";
    const endsAt = entry.bornAt + rules().maxAgeEverMs;
    return { entry, tier, stored: true, outcome, forwarded: undefined, note, endsAt };
  }

  /** Fetches a fresh answer again and compares the two, to measure the share of out-of-date answers. */
  #check(question: Question, entry: Entry): void {
    const { tiers, refresh, checks, lifetimes } = this.#options;
    if (entry.status !== 200) return;
    void checks.run("answer", async (spend) => {
      spend();
      if ((await refresh(question, entry, "refresh")) !== "refreshed") return;
      const now = await tiers.lookup(question.key);
      if (now !== undefined) lifetimes.checked(now.entry.etag === entry.etag);
    });
  }

  /** Waits for a flight; serves the cached answer if the flight fails and the rules allow it. */
  async #fetched(question: Question, cached: Found | undefined, why: Forwarded): Promise<Answer> {
    const { rules, clock, failures, isCoolingOff, load } = this.#options;
    const { key, request } = question;
    const { app, priority } = request;
    const giveUpAt = clock.now() + rules().maxWaitForFreshMs;
    const fallback = why === "stale" ? this.#instead(question, cached, NOT_CALLED) : undefined;
    if (fallback && isCoolingOff(question)) return fallback();
    const deadlineAt = fallback ? Math.min(request.deadlineAt, giveUpAt) : request.deadlineAt;
    const waiter = { app, deadlineAt, gone: request.gone(), priority };
    const cause = why === "request" ? "forced" : "miss";
    try {
      return answerOf(await load({ question, cached: cached?.entry, cause, waiter }), why);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const instead = this.#instead(question, cached, error);
      if (instead === undefined) throw error;
      if (deadlineAt === giveUpAt && isTooSlowForAll(error)) failures.tooSlow(key, error, clock.monotonic());
      return instead();
    }
  }

  /** @returns what serves the cached answer, if the rules allow that after this failure. It may have been purged meanwhile. */
  #instead(question: Question, cached: Found | undefined, failure: Problem): (() => Answer) | undefined {
    const { tiers, rules, clock } = this.#options;
    const left = cached && tiers.judge(question.key, cached.entry, cached.tier);
    const decision = decide(left, question, failure, rules(), clock.now());
    if (left === undefined || decision.kind !== "serve") return undefined;
    return () => this.#serve(question, left, decision);
  }
}

/** The answer of a flight. */
function answerOf({ collapsed, ...loaded }: Awaited<ReturnType<Load>>, why: Forwarded): Answer {
  const outcome = collapsed ? "collapsed" : "miss";
  return { ...loaded, outcome, tier: undefined, forwarded: why, note: undefined };
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

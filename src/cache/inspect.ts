import { CODINGS } from "../content-codings.ts";
import type { Problem } from "../errors.ts";
import { NO_DIRECTIVES } from "../query/request.ts";
import type { Query } from "../query/query.ts";
import type { Failures } from "./recent-failures.ts";
import { ageMs, type CacheRules, ttlMs } from "./freshness.ts";
import { decide } from "./serve-or-fetch.ts";
import type { Lifetimes } from "./lifetimes/learned-lifetimes.ts";
import type { Tiers } from "./store/tiered.ts";

/** Inspects a key. It reads the stores and never calls the upstream. */
export type Inspect = ReturnType<typeof createInspect>;

/** The state of an answer in the cache, for an operator. Times in seconds. */
export type Inspection = Awaited<ReturnType<Inspect>>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createInspect(
  tiers: Tiers,
  rules: () => CacheRules,
  lifetimes: Lifetimes,
  failures: Failures,
  now: () => number,
) {
  /** @param refusal why a call would be refused now. Without it, `next` ignores the budget and the circuits. */
  // oxlint-disable-next-line typescript/explicit-module-boundary-types
  return async function inspect(query: Query, key: string, refusal?: Problem) {
    const found = await tiers.lookup(key);
    const message = failures.latest(key)?.message;
    /** Why the latest call failed, as in the log; absent if it did not. */
    const failure = message === undefined ? {} : { failure: message };
    if (found === undefined)
      return { key, next: "fetch" as const, why: "not stored" as const, entry: null, ...failure };
    const { entry, tier, isPurged } = found;
    const { status, bodies, bodyBytes, etag, tags } = entry;
    const request = { directives: NO_DIRECTIVES, mayForceRefresh: false };
    const decision = decide(found, { query, request }, refusal, rules(), now());
    const isFresh = "isFresh" in decision && decision.isFresh;
    return {
      key,
      /** What a request would do now. `update`: it gets the stale answer, which is refreshed in the background. */
      next: NEXT[decision.kind],
      why: isPurged ? ("purged" as const) : isFresh ? ("fresh" as const) : ("expired" as const),
      entry: {
        tier,
        status,
        ageSeconds: seconds(ageMs(entry, now())),
        /** Negative if it has expired. */
        freshForSeconds: seconds(entry.freshUntil - now()),
        keptForSeconds: seconds(entry.keepUntil - now()),
        bodyBytes,
        codings: CODINGS.filter(
          (coding) => bodies[coding] !== undefined || (coding === "zstd" && bodies.packed !== undefined),
        ),
        etag,
        tags,
        /** What decides its lifetime; `null` until it was fetched a second time. */
        learned: lifetimes.about(entry, ttlMs(rules(), query, status)),
      },
      ...failure,
    };
  };
}

const NEXT = { serve: "hit", serveAndRefresh: "update", fetch: "fetch", refuse: "fetch" } as const;

function seconds(ms: number): number {
  return Math.floor(ms / 1_000);
}

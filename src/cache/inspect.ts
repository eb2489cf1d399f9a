import type { Entry } from "./entry.ts";
import { NO_DIRECTIVES } from "../query/request.ts";
import type { Tier } from "../telemetry/events.ts";
import type { Query } from "../query/query.ts";
import type { Failures } from "./recent-failures.ts";
import { ageMs, type CacheRules, isFresh, ttlMs } from "./ttl.ts";
import { decide } from "./serve-or-fetch.ts";
import type { LearnedAbout, Lifetimes } from "./lifetimes/lifetimes.ts";
import type { Tiers } from "./store/tiered.ts";

/** The state of an answer in the cache, for an operator. Times in seconds. */
export interface Inspection {
  readonly key: string;
  /** What a request would do now. `update`: it gets the stale answer, which is refreshed in the background. */
  readonly next: "hit" | "update" | "fetch";
  readonly why: "fresh" | "not stored" | "expired" | "purged";
  /** `learned`: what decides its lifetime; `null` until it was fetched a second time. */
  readonly entry: (ReturnType<typeof inspected> & { readonly learned: LearnedAbout | null }) | null;
  /** Why the latest call failed, as in the log; absent if it did not. */
  readonly failure?: string;
}

/** Inspects a key. It reads the stores and never calls the upstream. */
export type Inspect = ReturnType<typeof createInspect>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createInspect(
  tiers: Tiers,
  rules: () => CacheRules,
  lifetimes: Lifetimes,
  failures: Failures,
  now: () => number,
) {
  return async function inspect(query: Query, key: string): Promise<Inspection> {
    const found = await tiers.lookup(key);
    const message = failures.latest(key)?.message;
    const failure = message === undefined ? {} : { failure: message };
    if (found === undefined) return { key, next: "fetch", why: "not stored", entry: null, ...failure };
    const { entry, tier, isPurged } = found;
    const request = { directives: NO_DIRECTIVES, mayForceRefresh: false };
    const decision = decide(found, { query, request }, undefined, rules(), now());
    return {
      key,
      next: NEXT[decision.kind],
      why: isPurged ? "purged" : isFresh(entry, rules(), now()) ? "fresh" : "expired",
      entry: {
        ...inspected(entry, tier, now()),
        learned: lifetimes.about(entry, ttlMs(rules(), query, entry.status)),
      },
      ...failure,
    };
  };
}

const NEXT = { serve: "hit", serveAndRefresh: "update", fetch: "fetch", refuse: "fetch" } as const;

function inspected(entry: Entry, tier: Tier, now: number) {
  const { status, bodies, bodyBytes, etag, tags } = entry;
  const seconds = (ms: number): number => Math.floor(ms / 1000);
  return {
    tier,
    status,
    ageSeconds: seconds(ageMs(entry, now)),
    /** Negative if it has expired. */
    freshForSeconds: seconds(entry.freshUntil - now),
    keptForSeconds: seconds(entry.keepUntil - now),
    bodyBytes,
    codings: (["identity", "zstd", "br", "gzip"] as const).filter(
      (coding) => bodies[coding] !== undefined || (coding === "zstd" && bodies.packed !== undefined),
    ),
    etag,
    tags,
  };
}

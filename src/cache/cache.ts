/**
 * The cache stage: lookup on the way down, store on the way up.
 */
import type { Answer, Entry, Fetched, Question, Tier, Waiting, WhyNotStored } from "../exchange.ts";
import type { Clock } from "../platform/clock.ts";
import { entryOf } from "./entry.ts";
import { freshnessLifetimeMs, isFresh, type Lifetimes } from "./policy.ts";
import type { Found, Tiers } from "./tiers.ts";

/** An entry, and where it is kept or why not. */
export interface Kept {
  readonly entry: Entry;
  readonly stored: true | WhyNotStored;
  /** Where it was found; absent where it was fetched. */
  readonly tier: Tier | undefined;
}

/** What a flight brings home, and how. */
export interface Flown {
  readonly value: Kept;
  readonly how: "found" | "fetched" | "followed";
}

interface Steps {
  readonly look: () => Promise<Kept | undefined>;
  readonly fetch: () => Promise<Kept>;
}

export interface CacheOptions {
  readonly tiers: Tiers;
  /** What comes next: waits for the one flight of a key, launching it where there is none. */
  readonly coalesce: (
    key: string,
    waiter: Question["request"],
    launch: (waiting: Waiting) => Promise<Flown>,
  ) => Promise<{ readonly value: Flown; readonly collapsed: boolean }>;
  /** Flies a key, once among all replicas. */
  readonly fly: (key: string, waiting: Waiting, steps: Steps) => Promise<Flown>;
  /** What a flight is about: asks the upstream, or rejects with a `Problem`. */
  readonly fetch: (question: Question, waiting: Waiting) => Promise<Fetched>;
  readonly lifetimes: Lifetimes;
  /** How long an answer is kept at all, in milliseconds. */
  readonly retentionMs: number;
  readonly clock: Clock;
}

/** @returns the answer to a question, from the cache or from one flight; rejects with a `Problem`. */
export type Cache = (question: Question) => Promise<Answer>;

export function createCache({
  tiers,
  coalesce,
  fly,
  fetch,
  lifetimes,
  retentionMs,
  clock,
}: CacheOptions): Cache {
  async function look(key: string): Promise<Kept | undefined> {
    const found = await tiers.lookup(key);
    return found !== undefined && isUsable(found, clock.now())
      ? { entry: found.entry, stored: true, tier: found.tier }
      : undefined;
  }

  async function fetchAndKeep(question: Question, waiting: Waiting): Promise<Kept> {
    const purgeEpoch = tiers.purgeEpoch();
    const fetched = await fetch(question, waiting);
    const lifetimeMs = freshnessLifetimeMs(lifetimes, question.query, fetched.status);
    const entry = entryOf(question.query, fetched, { now: clock.now(), lifetimeMs, retentionMs, purgeEpoch });
    return { entry, stored: await tiers.keep(question.key, entry), tier: undefined };
  }

  return async function answer(question) {
    const { key, request } = question;
    const hit = await look(key);
    if (hit !== undefined) return { ...hit, outcome: "hit" };
    const { value: flown, collapsed } = await coalesce(key, request, (waiting) =>
      fly(key, waiting, { look: () => look(key), fetch: () => fetchAndKeep(question, waiting) }),
    );
    const outcome = collapsed ? "collapsed" : OUTCOMES[flown.how];
    return { ...flown.value, outcome, tier: outcome === "hit" ? flown.value.tier : undefined };
  };
}

const OUTCOMES = { found: "hit", fetched: "miss", followed: "collapsed" } as const;

function isUsable({ entry, isPurged }: Found, now: number): boolean {
  return !isPurged && isFresh(entry, now);
}

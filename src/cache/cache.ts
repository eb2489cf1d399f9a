/**
 * The cache stage: lookup on the way down, store on the way up.
 */
import { Problem } from "../errors.ts";
import type { Answer, Entry, Fetched, Question, Tier, Waiting, WhyNotStored } from "../exchange.ts";
import type { Clock } from "../platform/clock.ts";
import { entryOf } from "./entry.ts";
import { freshnessLifetimeMs, isFresh, type Lifetimes, type StaleBounds } from "./policy.ts";
import { createStandIn } from "./stand-in.ts";
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
  readonly lifetimes: Lifetimes & StaleBounds;
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
  const standIn = createStandIn({ tiers, bounds: lifetimes, now: clock.now });

  /** @returns what was found, where it is fresh and no purge concerns it */
  function usable(found: Found | undefined): Kept | undefined {
    return found !== undefined && !found.isPurged && isFresh(found.entry, clock.now(), lifetimes)
      ? { entry: found.entry, stored: true, tier: found.tier }
      : undefined;
  }

  const look = async (key: string): Promise<Kept | undefined> => usable(await tiers.lookup(key));

  async function fetchAndKeep(question: Question, waiting: Waiting): Promise<Kept> {
    const purgeEpoch = tiers.purgeEpoch();
    const fetched = await fetch(question, waiting);
    const lifetimeMs = freshnessLifetimeMs(lifetimes, question.query, fetched.status);
    const entry = entryOf(question.query, fetched, { now: clock.now(), lifetimeMs, retentionMs, purgeEpoch });
    return { entry, stored: await tiers.keep(question.key, entry), tier: undefined };
  }

  async function waitForFlight(question: Question): Promise<Answer> {
    const { key, request } = question;
    const flight = await coalesce(key, request, (waiting) =>
      fly(key, waiting, { look: () => look(key), fetch: () => fetchAndKeep(question, waiting) }),
    ).catch((error: unknown) => {
      if (isAnotherAppsShare(error, request.app)) return undefined;
      throw error;
    });
    // The app that launched it has used up its share; this one may have a place.
    if (flight === undefined) return await waitForFlight(question);
    const { value: flown, collapsed } = flight;
    const outcome = collapsed ? "collapsed" : OUTCOMES[flown.how];
    const tier = outcome === "hit" ? flown.value.tier : undefined;
    return { ...flown.value, outcome, tier, insteadOf: undefined };
  }

  return async function answer(question) {
    const found = await tiers.lookup(question.key);
    const hit = usable(found);
    if (hit !== undefined) return { ...hit, outcome: "hit", insteadOf: undefined };
    return await (found === undefined
      ? waitForFlight(question)
      : standIn(question, found, () => waitForFlight(question)));
  };
}

function isAnotherAppsShare(error: unknown, app: string): boolean {
  return error instanceof Problem && error.details.ofApp !== undefined && error.details.ofApp !== app;
}

const OUTCOMES = { found: "hit", fetched: "miss", followed: "collapsed" } as const;

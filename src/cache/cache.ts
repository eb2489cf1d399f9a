/**
 * The cache stage: lookup on the way down, store on the way up.
 */
import type { Answer, Entry, Fetched, Question, Waiting, WhyNotStored } from "../exchange.ts";
import type { Clock } from "../platform/clock.ts";
import { entryOf } from "./entry.ts";
import { freshnessLifetimeMs, isFresh, type Lifetimes } from "./policy.ts";
import type { Store } from "./store.ts";

/** What a flight brings home. */
export interface Kept {
  readonly entry: Entry;
  readonly stored: true | WhyNotStored;
  /** False where the flight found the entry already there. */
  readonly fetched: boolean;
}

/** Waits for the one flight of a key, launching it where there is none. */
type Coalesce = (
  key: string,
  waiter: Question["request"],
  launch: (waiting: Waiting) => Promise<Kept>,
) => Promise<{ readonly value: Kept; readonly collapsed: boolean }>;

export interface CacheOptions {
  readonly store: Store;
  /** What comes next. */
  readonly coalesce: Coalesce;
  /** What a flight is about: asks the upstream, or rejects with a `Problem`. */
  readonly fetch: (question: Question, waiting: Waiting) => Promise<Fetched>;
  readonly lifetimes: Lifetimes;
  readonly clock: Clock;
}

/** @returns the answer to a question, from the cache or from one flight; rejects with a `Problem`. */
export type Cache = (question: Question) => Promise<Answer>;

export function createCache({ store, coalesce, fetch, lifetimes, clock }: CacheOptions): Cache {
  async function freshEntry(key: string): Promise<Entry | undefined> {
    const entry = await store.get(key);
    return entry !== undefined && isFresh(entry, clock.now()) ? entry : undefined;
  }

  async function fetchAndStore(question: Question, waiting: Waiting): Promise<Kept> {
    // Another flight may have landed between this one's lookup and its launch.
    const landed = await freshEntry(question.key);
    if (landed !== undefined) return { entry: landed, stored: true, fetched: false };
    const fetched = await fetch(question, waiting);
    const lifetimeMs = freshnessLifetimeMs(lifetimes, question.query, fetched.status);
    const entry = entryOf(fetched, clock.now(), lifetimeMs);
    return { entry, stored: await store.set(question.key, entry), fetched: true };
  }

  return async function answer(question) {
    const hit = await freshEntry(question.key);
    if (hit !== undefined) return { entry: hit, outcome: "hit", stored: true };
    const { value, collapsed } = await coalesce(question.key, question.request, (waiting) =>
      fetchAndStore(question, waiting),
    );
    const { entry, stored, fetched } = value;
    return { entry, stored, outcome: collapsed ? "collapsed" : fetched ? "miss" : "hit" };
  };
}

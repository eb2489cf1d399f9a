/**
 * Loads an answer that is not cached, or not new enough. There is one flight per key, in this process and across
 * replicas. Its answer is stored.
 *
 * This is the only place that tries again. A flight can end without an answer for this caller: it was
 * withdrawn, its leader died, it was refused because of another app's limits, or its answer was purged
 * before this caller's request. The caller then joins the next flight, or starts it.
 */
import { Problem } from "../errors.ts";
import type { Context } from "../context.ts";
import type { Cause, Tier, WhyNotStored } from "../telemetry/events.ts";
import type { Entry } from "./entry.ts";
import type { AskUpstream } from "../upstream/retry.ts";
import type { Flights, Waiter } from "../singleflight/callers-flights.ts";
import type { LeadOrFollow } from "../singleflight/replica-leader.ts";
import type { Question } from "../query/request.ts";
import type { Waiting } from "../ratelimit/call-facts.ts";
import type { Checks } from "./lifetimes/checks.ts";
import type { Failures } from "./recent-failures.ts";
import { type CacheRules, isFresh } from "./freshness.ts";
import type { Lifetimes } from "./lifetimes/learned-lifetimes.ts";
import { isFailureOfUpstream } from "./serve-or-fetch.ts";
import { nextEntry } from "./next-entry.ts";
import type { Tiers } from "./store/tiered.ts";

/** An entry, and whether it is stored, or why not. */
export interface LoadedEntry {
  readonly entry: Entry;
  readonly stored: true | WhyNotStored;
  /** Where it was found; absent if it was fetched. */
  readonly tier: Tier | undefined;
  /** The upstream's status, if it differs from the entry's own: 304. */
  readonly forwardedStatus?: number;
}

export interface LoadOptions extends Pick<Context, "clock" | "observer"> {
  readonly tiers: Tiers;
  /** Waits for the one flight of a key in this process, and starts it if there is none. */
  readonly joinFlight: Flights<LoadedEntry | undefined>["join"];
  /** Fetches a key, or waits for the replica that is fetching it. */
  readonly leadOrFollow: LeadOrFollow<LoadedEntry>;
  /** Calls the upstream; rejects with a `Problem`. */
  readonly fetch: AskUpstream;
  readonly failures: Failures;
  readonly rules: () => CacheRules;
  readonly lifetimes: Pick<Lifetimes, "of">;
  /** The most replicas that serve requests at once (`budget.replicas`). */
  readonly replicas: number;
  readonly checks: Pick<Checks, "called">;
}

interface LoadRequest {
  readonly question: Question;
  /** The cached answer that is to be replaced by a newer one. */
  readonly cached: Entry | undefined;
  readonly cause: Cause;
  readonly waiter: Waiter;
}

/** `collapsed`: another request, here or in another replica, has fetched it. `ended`: resolves when the answer is stored. */
type Loaded = LoadedEntry & { readonly collapsed: boolean; readonly ended: Promise<void> };

export type Load = ReturnType<typeof createLoad>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createLoad(options: LoadOptions) {
  const { tiers, clock } = options;

  /** @returns an answer newer than the cached one; rejects with a `Problem` */
  return async function load(request: LoadRequest): Promise<Loaded> {
    const { question, waiter } = request;
    const purgeEpoch = tiers.purgeEpoch();
    const wasPurged = ({ entry }: Loaded): boolean =>
      entry.purgeEpoch < purgeEpoch && isPurged(tiers, question.key, entry);
    for (;;) {
      const loaded = await loadOnce(options, request).catch((error: unknown) => {
        if (isRefusalOfAnother(error, request)) return undefined;
        throw error;
      });
      if (loaded !== undefined && !wasPurged(loaded)) return loaded;
      // The flight may still store the purged answer. Until its end, joining it again would give that answer again, at once.
      await loaded?.ended;
      if (waiter.gone.aborted || clock.now() >= waiter.deadlineAt)
        throw new Problem("deadline-exceeded", { internal: "no time is left for another flight" });
    }
  };
}

/** Joins the flight of a key, or starts it. @returns `undefined` if the flight had no result */
async function loadOnce(options: LoadOptions, request: LoadRequest): Promise<Loaded | undefined> {
  const { joinFlight, leadOrFollow, failures, clock } = options;
  const { key } = request.question;
  const { value, collapsed, ended } = await joinFlight(key, request.waiter, async (waiting, answer) => {
    // A failed flight counts once, however many callers wait for it. A failure in another replica counts when its message comes.
    const count = (error: unknown): never => {
      if (error instanceof Problem && isFailureOfUpstream(error))
        failures.failed(key, error, clock.monotonic());
      throw error;
    };
    const loaded = await leadOrFollow(key, waiting.abandoned, {
      look: () => look(options, request),
      fetch: () => fetchAndStore(options, request, waiting, answer).catch(count),
    });
    if (loaded !== undefined) failures.succeeded(key);
    return loaded;
  });
  return value && { ...value, collapsed: collapsed || value.tier !== undefined, ended };
}

/** Looks for an answer that another flight may have stored meanwhile. */
async function look(
  { tiers, rules, clock }: LoadOptions,
  { question: { key }, cached }: LoadRequest,
): Promise<LoadedEntry | undefined> {
  const found = await tiers.lookup(key, cached?.storedAt);
  if (found === undefined || found.isPurged || !isFresh(found.entry, rules(), clock.now())) return undefined;
  const isNewer = cached === undefined || found.entry.storedAt > cached.storedAt;
  return isNewer ? { entry: found.entry, stored: true, tier: found.tier } : undefined;
}

/** @param answer gives the answer to the callers as soon as it is in memory */
async function fetchAndStore(
  { tiers, fetch, rules, lifetimes, replicas, checks, clock, observer }: LoadOptions,
  { question, cached, cause }: LoadRequest,
  waiting: Waiting,
  answer: (loaded: LoadedEntry) => void,
): Promise<LoadedEntry> {
  const { key, query } = question;
  let purgeEpoch = tiers.purgeEpoch();
  const asking = {
    question,
    waiting,
    cause,
    // A hard purge may have removed the entry while the call was queued. A 304 would bring it back.
    cached: () => cached && tiers.judge(key, cached, "memory") && validatorsOf(cached),
    departing: () => void (purgeEpoch = tiers.purgeEpoch()),
  };
  const fetched = await fetch(asking);
  checks.called();
  const latest = cached ?? tiers.purgedHard(key);
  const before = latest && {
    entry: latest,
    wasPurged: isPurged(tiers, key, latest),
    requests: latest.served.count * replicas + (isBackground(cause) ? 0 : 1),
  };
  const arrived = { query, fetched, now: clock.now(), purgeEpoch, cached, before };
  const { entry, mayStore, change } = await nextEntry(arrived, rules(), lifetimes);
  if (change !== undefined) observer.refreshed(query.resource, change);
  const loaded = { entry, tier: undefined, forwardedStatus: fetched.status };
  if (!mayStore) {
    // Otherwise the outdated answer would be refreshed again and again, and never become newer.
    if (cached !== undefined) await tiers.drop(key);
    return { ...loaded, stored: "upstream-no-store" };
  }
  // Compressing the entry and writing it to the store takes time, and callers need not wait for that.
  const stored = await tiers.keep(key, entry, () => answer({ ...loaded, stored: true }));
  return { ...loaded, stored };
}

/** The validators for a conditional request. A stored problem has none. */
function validatorsOf({ validators }: Entry): Entry["validators"] | undefined {
  return (validators.etag ?? validators.lastModified) === undefined ? undefined : validators;
}

function isPurged(tiers: Tiers, key: string, entry: Entry): boolean {
  return tiers.judge(key, entry, "memory")?.isPurged !== false;
}

const isBackground = (cause: Cause): boolean => cause === "refresh" || cause === "warm";

/** Whether a flight was refused because of limits that do not apply to this request: another app's. */
function isRefusalOfAnother(error: unknown, { waiter: { app } }: LoadRequest): boolean {
  if (!(error instanceof Problem)) return false;
  const { ofApp, late } = error.details;
  // This waiter's own deadline in the queue has not passed.
  return late !== true && ofApp !== undefined && ofApp !== app;
}

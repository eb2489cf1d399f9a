/**
 * How an answer that is not held, or not new enough, is come by: one flight per key, in this process and among
 * all replicas, and what it brings is kept.
 */
import { Problem } from "../errors.ts";
import type {
  Cause,
  Entry,
  Fetched,
  FlightWaiting,
  Observer,
  Question,
  Tier,
  Validators,
  Waiter,
  Waiting,
  WhyNotStored,
} from "../types.ts";
import type { Clock } from "../process/clock.ts";
import type { Failures } from "./failures.ts";
import { type CacheRules, isFresh } from "./freshness.ts";
import { isFailureOfUpstream, wasRefusedHere } from "./policy.ts";
import { receive } from "./receive.ts";
import type { Tiers } from "./store/tiered.ts";

/** An entry, and where it is kept or why not. */
export interface Kept {
  readonly entry: Entry;
  readonly stored: true | WhyNotStored;
  /** Where it was found; absent where it was fetched. */
  readonly tier: Tier | undefined;
  /** With which status it was fetched, where that is not the entry's own: 304. */
  readonly forwardedStatus?: number;
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

/** How to ask the upstream. */
interface Asking {
  readonly cause: Cause;
  /** What is held, if its newness can be asked for. */
  readonly held: Validators | undefined;
  /** Told whenever a call departs: what is purged from then on, its answer may not know of. */
  readonly departing: () => void;
}

export interface ObtainOptions {
  readonly tiers: Tiers;
  /** Waits for the one flight of a key in this process, launching it where there is none. */
  readonly coalesce: (
    key: string,
    waiter: Waiter,
    launch: (waiting: FlightWaiting) => Promise<Flown>,
  ) => Promise<{ readonly value: Flown; readonly collapsed: boolean }>;
  /** Flies a key, once among all replicas. */
  readonly fly: (key: string, waiting: FlightWaiting, steps: Steps) => Promise<Flown>;
  /** What a flight is about: asks the upstream, or rejects with a `Problem`. */
  readonly fetch: (question: Question, waiting: Waiting, asking: Asking) => Promise<Fetched>;
  readonly failures: Failures;
  readonly rules: () => CacheRules;
  readonly clock: Clock;
  readonly observer: Pick<Observer, "refreshed">;
}

/** What somebody wants, and who. */
interface Wanted {
  readonly question: Question;
  /** What is held, and is to be replaced by something newer. */
  readonly held: Entry | undefined;
  readonly cause: Cause;
  readonly waiter: Waiter;
}

/** @returns a newer answer than the one held; rejects with a `Problem`, as does every flight joined */
export type Obtain = (wanted: Wanted) => Promise<{ readonly flown: Flown; readonly collapsed: boolean }>;

export function createObtain(options: ObtainOptions): Obtain {
  const { tiers, coalesce, fly, failures, rules, clock } = options;

  /** Looks for what another flight may have brought meanwhile. */
  async function look({ question: { key }, held }: Wanted): Promise<Kept | undefined> {
    const found = await tiers.lookup(key, held?.storedAt);
    if (found === undefined || found.isPurged || !isFresh(found.entry, rules(), clock.now()))
      return undefined;
    const isNewer = held === undefined || found.entry.storedAt > held.storedAt;
    return isNewer ? { entry: found.entry, stored: true, tier: found.tier } : undefined;
  }

  return async function obtain(wanted) {
    const { question, waiter } = wanted;
    const { key } = question;
    const { value: flown, collapsed } = await coalesce(key, waiter, async (waiting) => {
      try {
        const steps = { look: () => look(wanted), fetch: () => fetchAndKeep(wanted, waiting, options) };
        const brought = await fly(key, waiting, steps);
        failures.succeeded(key);
        return brought;
      } catch (error) {
        // Once per flight, however many wait for it.
        if (error instanceof Problem && isFailureOfUpstream(error))
          failures.failed(key, error, clock.steady());
        throw error;
      }
    });
    return { flown, collapsed };
  };
}

async function fetchAndKeep(
  { question, held, cause }: Wanted,
  waiting: Waiting,
  { tiers, fetch, rules, clock, observer }: ObtainOptions,
): Promise<Kept> {
  let purgeEpoch = tiers.purgeEpoch();
  const startedAt = clock.steady();
  const asking: Asking = {
    cause,
    held: held && validatorsOf(held),
    departing() {
      purgeEpoch = tiers.purgeEpoch();
    },
  };
  const fetched = await fetch(question, waiting, asking).catch((error: unknown) => {
    throw isBackground(cause) ? asBackground(error) : error;
  });
  const receipt = { now: clock.now(), fetchMs: clock.steady() - startedAt, purgeEpoch };
  const { entry, mayStore, change, shadow } = await receive(question.query, fetched, held, receipt, rules());
  if (change !== undefined) observer.refreshed({ resource: question.query.resource, change, shadow });
  const forwardedStatus = fetched.status;
  if (mayStore) {
    const stored = await tiers.keep(question.key, entry);
    return { entry, stored, tier: undefined, forwardedStatus };
  }
  // What it has overtaken is not given any more: it would be refreshed again and again, and never be newer.
  if (held !== undefined) await tiers.drop(question.key);
  return { entry, stored: "upstream-no-store", tier: undefined, forwardedStatus };
}

/** By which the upstream can be asked whether an entry is still true; only of a good answer. */
function validatorsOf({ status, validators }: Entry): Validators | undefined {
  const hasAny = validators.etag !== undefined || validators.lastModified !== undefined;
  return status === 200 && hasAny ? validators : undefined;
}

function isBackground(cause: Cause): boolean {
  return cause === "refresh" || cause === "warm";
}

/** That there was no place for work that nobody waits for says nothing to those who wait. */
function asBackground(error: unknown): unknown {
  return error instanceof Problem && wasRefusedHere(error)
    ? new Problem(error.code, { ...error.details, ofBackground: true })
    : error;
}

/** Whether a flight was refused for the sake of whoever launched it: another one may have a place. */
export function isAnothersRefusal(error: unknown, app: string): boolean {
  if (!(error instanceof Problem)) return false;
  const { ofApp, ofBackground, late } = error.details;
  // Who has waited in vain has no time for another one.
  if (late === true) return false;
  return ofBackground === true || (ofApp !== undefined && ofApp !== app);
}

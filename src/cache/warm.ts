/**
 * Keeping answers warm: each is fetched before anybody asks for it, and again before it expires.
 *
 * What is due is read off the entries themselves, which are shared by all replicas and outlive a restart:
 * so nobody fetches what another replica, or this one before it was restarted, has just fetched.
 */
import type { Entry, Observer, Question, RefreshEnd } from "../types.ts";
import type { Format } from "../interface/media-types.ts";
import type { Clock } from "../process/clock.ts";
import type { Random } from "../process/random.ts";
import { type CacheRules, isWithinBounds } from "./freshness.ts";
import type { Refresh } from "./refresh.ts";
import type { Tiers } from "./store/tiered.ts";

/** What is kept warm. */
export interface WarmItem {
  readonly question: Question;
  /** How often it is fetched, in milliseconds; `null`: shortly before it expires. */
  readonly everyMs: number | null;
}

/** How an item stands, for operators. */
interface WarmState {
  readonly query: string;
  /** In which it is kept: two formats of a query are two answers. */
  readonly format: Format;
  readonly app: string;
  readonly everySeconds: number | null;
  /** Seconds until it is fetched; 0: it is due. */
  readonly dueInSeconds: number;
  /** How its last fetch ended; `null`: none was due yet. */
  readonly last: RefreshEnd | null;
}

export interface Warm {
  readonly start: () => void;
  readonly stop: () => void;
  readonly items: () => readonly WarmItem[];
  /** From now on these are kept warm, and no others. What was kept warm already goes on as before. */
  readonly replace: (items: readonly WarmItem[]) => void;
  readonly states: () => readonly WarmState[];
}

export interface WarmOptions {
  readonly items: readonly WarmItem[];
  readonly tiers: Pick<Tiers, "lookup">;
  readonly refresh: Refresh;
  readonly rules: () => CacheRules;
  readonly clock: Clock;
  readonly random: Pick<Random, "fraction">;
  readonly observer: Pick<Observer, "warmed">;
}

/** What had no place, or failed, is tried again after about so long. */
const RETRY_MS = { refused: 15_000, failed: 60_000, skipped: 1_000 } as const;
/** It is looked at so often although it is not due: it may have been purged, or evicted. */
const LOOK_EVERY_MS = 60_000;
/** The part of its life before the end of which an answer is fetched anew. */
const LAST_PART = 0.1;
/** The replicas begin at different times, with a new list too, so that not all ask at once who is to fetch. */
const SPREAD_MS = 2_000;

interface Scheduled extends WarmItem {
  /** By the steady clock: a time of day that is set back puts nothing off. */
  lookAt: number;
  /** When it is to be fetched, as far as is known; likewise. */
  dueAt: number;
  last: RefreshEnd | null;
}

export function createWarm(options: WarmOptions): Warm {
  const { clock, random } = options;
  const attend = createAttend(options);
  let scheduled = options.items.map(begun);
  let cancel = (): void => undefined;
  let isStopped = true;
  let isAttending = false;

  /** One after the other: this is not to come in a burst. */
  async function next(): Promise<void> {
    const [first] = scheduled.toSorted((one, other) => one.lookAt - other.lookAt);
    if (first !== undefined && first.lookAt <= clock.steady()) {
      isAttending = true;
      await attend(first);
      isAttending = false;
    }
    // The list may have been replaced meanwhile.
    if (isStopped || scheduled.length === 0) return;
    const soonest = Math.min(...scheduled.map(({ lookAt }) => lookAt));
    cancel = clock.after(Math.max(0, soonest - clock.steady()), () => void next());
  }

  function begin(): void {
    cancel();
    cancel = clock.after(random.fraction() * SPREAD_MS, () => void next());
  }

  return {
    start() {
      isStopped = false;
      begin();
    },
    stop() {
      isStopped = true;
      cancel();
    },
    items: () => scheduled,
    replace(items) {
      const before = scheduled;
      scheduled = items.map((item) => before.find((old) => isSame(old, item)) ?? begun(item));
      // Otherwise the new ones are seen to when the one that is being fetched has come.
      if (!isStopped && !isAttending) begin();
    },
    states: () =>
      scheduled.map(({ question, everyMs, dueAt, last }) => ({
        query: question.canonicalQuery,
        format: question.request.format,
        app: question.request.app,
        everySeconds: everyMs === null ? null : everyMs / 1000,
        dueInSeconds: Math.max(0, Math.ceil((dueAt - clock.steady()) / 1000)),
        last,
      })),
  };
}

/** @returns what fetches an item if that is due, and says when to look again */
function createAttend(options: WarmOptions): (item: Scheduled) => Promise<void> {
  const { tiers, refresh, rules, clock, random, observer } = options;
  return async function attend(item: Scheduled): Promise<void> {
    const { question } = item;
    const found = await tiers.lookup(question.key);
    const dueAt =
      found === undefined || found.isPurged
        ? clock.now()
        : dueAgainAt(found.entry, item, rules(), clock.now());
    item.dueAt = clock.steady() + Math.max(0, dueAt - clock.now());
    if (dueAt > clock.now()) {
      item.lookAt = Math.min(item.dueAt, clock.steady() + LOOK_EVERY_MS);
      return;
    }
    const end = await refresh(question, found?.entry, "warm");
    observer.warmed(question.query.resource, end);
    item.last = end;
    const renewed = end === "refreshed" ? await tiers.lookup(question.key) : undefined;
    const now = clock.now();
    // What is not kept, by the upstream's word say, is not asked for again and again.
    const retryMs = end === "refreshed" ? RETRY_MS.failed : RETRY_MS[end];
    const retryAt = now + retryMs * (0.5 + random.fraction());
    const lookAt =
      renewed === undefined ? retryAt : Math.max(dueAgainAt(renewed.entry, item, rules(), now), now + 1_000);
    item.dueAt = clock.steady() + (lookAt - now);
    item.lookAt = renewed === undefined ? item.dueAt : Math.min(item.dueAt, clock.steady() + LOOK_EVERY_MS);
  };
}

/** An item that is to be looked at as soon as may be. */
function begun(item: WarmItem): Scheduled {
  return { ...item, lookAt: 0, dueAt: 0, last: null };
}

function isSame(one: WarmItem, other: WarmItem): boolean {
  return (
    one.question.key === other.question.key &&
    one.question.request.app === other.question.request.app &&
    one.everyMs === other.everyMs
  );
}

/** When an entry is to be fetched anew, epoch milliseconds; at the latest when it expires, but for a schedule. */
function dueAgainAt(entry: Entry, { everyMs }: WarmItem, rules: CacheRules, now: number): number {
  const { storedAt, freshUntil } = entry;
  // What is of no use from the first is not made warm by asking for it again and again.
  if (!isWithinBounds(entry, rules, now)) return storedAt + RETRY_MS.failed;
  if (everyMs !== null) return storedAt + everyMs;
  if (freshUntil <= storedAt) return storedAt + RETRY_MS.failed;
  const nearItsEnd = freshUntil - (freshUntil - storedAt) * LAST_PART;
  return Math.max(nearItsEnd, storedAt + rules.minRefreshIntervalMs);
}

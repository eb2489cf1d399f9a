/**
 * Keeps answers warm: fetches each one before a caller requests it, and again before it expires.
 *
 * The cached entries show which answers are due. They survive a restart in a durable or shared store, and all replicas
 * see those in a shared store. So an answer that was fetched elsewhere, or before a restart, is not fetched again.
 */
import type { Context } from "../context.ts";
import type { Format } from "../interface/media-types.ts";
import { pause } from "../process/clock.ts";
import type { ParsedQuery } from "../query/query.ts";
import type { Question } from "../query/request.ts";
import type { RefreshEnd } from "../telemetry/events.ts";
import type { Entry } from "./entry.ts";
import { type CacheRules, isWithinBounds, ttlMs } from "./freshness.ts";
import type { Refresh } from "./refresh.ts";
import type { Tiers } from "./store/tiered.ts";
import type { WarmItem } from "./warm-list.ts";

export interface WarmOptions extends Pick<Context, "clock" | "random" | "observer"> {
  readonly items: readonly WarmItem[];
  readonly tiers: Pick<Tiers, "lookup">;
  /** Returns the question to fetch for an item: the item's own, or that of the block that contains its page. */
  readonly sourceOf: (question: Question, format: Format) => Promise<ParsedQuery>;
  readonly refresh: Refresh;
  readonly rules: () => CacheRules;
}

/** A fetch that was refused or failed is tried again after about this time. */
const RETRY_MS = { refused: 15_000, failed: 60_000, skipped: 1_000 } as const;
/** An item that is not due is checked this often, because it may have been purged or evicted. */
const LOOK_EVERY_MS = 60_000;
/** An answer is fetched again in this last part of its lifetime. */
const LAST_PART = 0.1;
/** Each replica begins a new list after a random part of this time, so that not all claim at once. */
const SPREAD_MS = 2_000;

interface Scheduled extends WarmItem {
  /** When to check it next. Monotonic, so that setting the time of day back delays nothing. */
  lookAt: number;
  /** When it will be fetched, as far as is known. Monotonic. */
  dueAt: number;
  last: RefreshEnd | null;
}

export class Warm {
  readonly #options: WarmOptions;
  #wake = new AbortController();
  #isStopped = false;
  #scheduled: readonly Scheduled[] = [];

  constructor(options: WarmOptions) {
    this.#options = options;
    this.replace(options.items);
  }

  start(): void {
    void this.#run();
  }

  stop(): void {
    this.#isStopped = true;
    this.#wake.abort();
  }

  /** Checks one item after the other, so that there is no burst. The item that was due first is next, so that none is left out. */
  async #run(): Promise<void> {
    const { clock } = this.#options;
    while (!this.#isStopped) {
      this.#wake = new AbortController();
      const now = clock.monotonic();
      const [next] = this.#scheduled.toSorted((one, other) => one.lookAt - other.lookAt);
      const { lookAt = Number.POSITIVE_INFINITY } = next ?? {};
      await (next && lookAt <= now ? this.#check(next) : pause(clock, lookAt - now, this.#wake.signal));
    }
  }

  /** Replaces the list. The cached entries show which items are due. */
  replace(items: readonly WarmItem[]): void {
    const { clock, random } = this.#options;
    const lookAt = clock.monotonic() + random.fraction() * SPREAD_MS;
    this.#scheduled = items.map((item) => ({ ...item, lookAt, dueAt: 0, last: null }));
    this.#wake.abort();
  }

  /** The state of each item, for operators. */
  readonly states = (): readonly ReturnType<typeof stateOf>[] =>
    this.#scheduled.map((item) => stateOf(item, this.#options.clock.monotonic()));

  /** Fetches an item if it is due, and schedules its next check. */
  async #check(item: Scheduled): Promise<void> {
    const { tiers, sourceOf, refresh, rules, clock, random, observer } = this.#options;
    const { request } = item.question;
    const question = { ...(await sourceOf(item.question, request.format)), request };
    const found = await tiers.lookup(question.key);
    const dueAt = found?.isPurged === false ? dueAgainAt(found.entry, item, rules(), clock.now()) : 0;
    if (dueAt > clock.now()) return this.#schedule(item, dueAt);
    const end = await refresh(question, found?.entry, "warm");
    observer.warmed(question.query.resource, end);
    item.last = end;
    const renewed = end === "refreshed" ? await tiers.lookup(question.key) : undefined;
    const now = clock.now();
    if (renewed !== undefined)
      return this.#schedule(item, Math.max(dueAgainAt(renewed.entry, item, rules(), now), now + 1_000));
    // An answer that may not be stored must not be fetched again at once.
    const retryMs = RETRY_MS[end === "refreshed" ? "failed" : end];
    this.#schedule(item, now + retryMs * (0.5 + random.fraction()));
  }

  #schedule(item: Scheduled, dueAt: number): void {
    const { clock } = this.#options;
    const inMs = Math.max(0, dueAt - clock.now());
    item.dueAt = clock.monotonic() + inMs;
    item.lookAt = clock.monotonic() + Math.min(inMs, LOOK_EVERY_MS);
  }
}

function stateOf({ question, everyMs, dueAt, last }: Scheduled, now: number) {
  return {
    query: question.canonicalQuery,
    /** A query has one answer per format. */
    format: question.request.format,
    app: question.request.app,
    everySeconds: everyMs === null ? null : everyMs / 1000,
    /** 0: due now. */
    dueInSeconds: Math.max(0, Math.ceil((dueAt - now) / 1000)),
    /** How its last fetch ended; `null`: there was none yet. */
    last,
  };
}

/** When to fetch an entry again, in epoch milliseconds: by its schedule, or shortly before it expires. */
function dueAgainAt(entry: Entry, { everyMs, question }: WarmItem, rules: CacheRules, now: number): number {
  const { status, storedAt, freshUntil } = entry;
  // An answer that was already too old when it arrived must not be fetched again at once.
  if (!isWithinBounds(entry, rules, now)) return storedAt + RETRY_MS.failed;
  if (everyMs !== null) return storedAt + everyMs;
  if (freshUntil <= storedAt) return storedAt + RETRY_MS.failed;
  // A 404 is fresh for a short time only, and callers seldom ask for it.
  const lifetimeMs = status === 200 ? freshUntil - storedAt : ttlMs(rules, question.query, 200);
  return storedAt + Math.max(lifetimeMs * (1 - LAST_PART), rules.minRefreshIntervalMs);
}

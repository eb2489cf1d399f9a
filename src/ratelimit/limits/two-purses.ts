/**
 * What a replica knows of the two purses, and which of them pays for a call [2]. shared-purse.ts exchanges it with Redis.
 */
import type { OriginName } from "../../interface/resources.ts";
import type { Clock } from "../../process/clock.ts";
import type { Observer } from "../../telemetry/events.ts";
import { limitsText, type RateWindow } from "../../usage/rate-window.ts";
import {
  type Acquired,
  DAY_MS,
  type LimiterConfig,
  type LimiterState,
  MOST_FREE_INSTANTS,
  type Permit,
  type PermitRequest,
  type Told,
  type WindowState,
} from "../limiter.ts";
import { AppCounts } from "./app-counts.ts";
import { dayOf, firstOf, keptMs, repeated, windowState } from "./purse-in-memory.ts";
import {
  atLeast,
  DRIFT,
  pursesOf,
  type PurseSettings,
  type PurseWindow,
  ROUNDING_MS,
  sendByOf,
} from "./purse-sizes.ts";
import type { Done, RedisPurse, Take, TakeResult } from "./redis-script.ts";
import { Slot, slotHoldMs } from "./slot.ts";

/** `outOfOrder`: Redis refuses the commands of this limiter. An outage of Redis itself is reported elsewhere. */
export interface SharedLimiterOptions
  extends PurseSettings, Pick<Observer, "warn" | "outOfOrder" | "backInOrder"> {
  readonly origin: OriginName;
  readonly config: LimiterConfig;
  readonly redis: Pick<RedisPurse, "ask" | "ledger">;
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly process: string;
  /** [3] A replica without Redis goes on for this long. */
  readonly degradedForMs: number;
  /** The timeout of the next command. It may change from command to command. */
  readonly timeoutMs: () => number;
  /** The longest timeout that any replica can have. */
  readonly mostTimeoutMs: number;
  readonly ledger: { readonly retentionMs: number; readonly maxRecords: number };
  /** Redis has lost data of the budget. */
  readonly dataLost: () => void;
}

/** A replica sends a command at least this often. */
export const TICK_MS = 250;
/** [6] A new process watches for this long. Other replicas send a command several times in this time. */
const JOIN_MS = 2_000;
/** A refusal while Redis is away: it may be back by then. */
const AWAY_MS = 1_000;

export class TwoPurses {
  readonly options: SharedLimiterOptions;
  readonly slot: Slot;
  readonly apps: AppCounts;
  config: LimiterConfig;
  /** The shortest first. */
  windows: readonly PurseWindow[];
  /** The last reply to a command that could change something. */
  last: (Done & { readonly askedAt: number }) | undefined;
  /** What the other replicas told last. */
  newsElsewhere: Told = { at: 0, news: [] };
  isReachable = true;
  /** [6] */
  isWatching = true;
  /** When the shared purse is likely to be open to this replica. */
  opensAt: number;
  #calls = 0;

  constructor(options: SharedLimiterOptions) {
    this.options = options;
    this.slot = new Slot(options.degradedForMs);
    this.apps = new AppCounts(options.redis.ledger);
    this.config = options.config;
    this.windows = pursesOf(options.config.windows, options);
    this.opensAt = this.now() + JOIN_MS;
  }

  now(): number {
    return this.options.clock.monotonic();
  }

  configure(config: LimiterConfig): void {
    this.config = config;
    this.windows = pursesOf(config.windows, this.options);
  }

  /** From a grant until the latest arrival of its call. The reply to the grant may take `timeoutMs`. */
  #countMs(): number {
    return this.config.arrivalMs + this.options.timeoutMs();
  }

  /** How long this process must remember its own calls. */
  keptMs(): number {
    return atLeast(keptMs(this.config.windows)) + this.config.arrivalMs + this.options.mostTimeoutMs;
  }

  /** Whether Redis decides on requests of this replica. */
  get canAsk(): boolean {
    return this.isReachable && !this.isWatching;
  }

  /** Whether the shared purse is open to this replica. */
  isShared(at: number): boolean {
    return this.canAsk && this.last !== undefined && at >= this.opensAt;
  }

  /** [2] @returns nothing if the shared purse must be asked */
  payIfItMay(request: PermitRequest): Acquired | undefined {
    const at = this.now();
    if (this.#waitForOwn(request, at) !== undefined) return undefined;
    const perDay = this.config.perDay.get(request.app);
    if (perDay !== undefined) {
      // The script counts the day of an app exactly.
      if (this.isReachable) return undefined;
      const { spent, nextFreeAt } = dayOf(this.apps.log, request.app, perDay, at);
      if (spent >= perDay) return { kind: "wait", until: nextFreeAt, reason: "per-day" };
    }
    return { kind: "permit", permit: this.payFromOwn(request) };
  }

  /** Only the own purse may pay. */
  decideAlone(request: PermitRequest): Acquired {
    return this.payIfItMay(request) ?? this.#away(request);
  }

  payFromOwn(request: PermitRequest): Permit {
    const { slot, config, apps } = this;
    const at = this.now();
    const id = this.#newId(request);
    const latest = at + config.arrivalMs;
    slot.spend(id, request, { now: at, latest, hasDay: config.perDay.has(request.app) });
    apps.sent(id, request.app, latest);
    return { id, request, sendBy: Math.min(sendByOf(at, config.arrivalMs), slot.rightUntil()) };
  }

  /** A request for a permit of the shared purse. */
  takeOf(request: PermitRequest, ignoresLimits: boolean): Take {
    const at = this.now();
    const { app, resource, cause, query } = request;
    const leave = this.#leave(request);
    return {
      id: this.#newId(request),
      app,
      resource,
      cause,
      query,
      ignoresLimits,
      perDay: this.config.perDay.get(app),
      leave: this.windows.map((one, index) => Math.max(0, (leave[index] ?? 0) - this.slot.left(one, at))),
      dayAtLeast: this.apps.log.spent(DAY_MS, at, app),
    };
  }

  /** What the script has decided. */
  outcome({ id, app }: Take, request: PermitRequest, result: TakeResult, at: number): Acquired {
    if (result.isGranted === true) {
      this.apps.sent(id, app, at + this.#countMs());
      return { kind: "permit", permit: { id, request, sendBy: sendByOf(at, this.config.arrivalMs) } };
    }
    const until = Math.min(this.#ownFrom(request, at), at + result.waitMs);
    return { kind: "wait", until: Math.max(at + 1, until), reason: result.reason };
  }

  #away(request: PermitRequest): Acquired {
    const at = this.now();
    const opensAt = this.isReachable ? Math.max(at + 1, this.opensAt) : at + AWAY_MS;
    const until = Math.min(this.#ownFrom(request, at), at + AWAY_MS, opensAt);
    return { kind: "wait", until, reason: "redis-away" };
  }

  /** When the own purse may pay for it. */
  #ownFrom(request: PermitRequest, at: number): number {
    return this.#waitForOwn(request, at)?.until ?? at + 1;
  }

  /** The own purse leaves what the shared purse cannot. While the shared purse is closed, it leaves its part by size. */
  #waitForOwn(request: PermitRequest, at: number): ReturnType<Slot["waitFor"]> {
    const shared = this.isShared(at) ? this.last?.windows : undefined;
    const leave = this.#leave(request).map((most, index) => {
      const { own = 0, limit = 1 } = this.windows[index] ?? {};
      return shared ? Math.max(0, most - (shared[index]?.[1] ?? 0)) : Math.ceil((most * own) / limit);
    });
    return this.slot.waitFor(this.windows, leave, at);
  }

  /** What a request must leave in each window, the shortest first. */
  #leave({ leave }: PermitRequest): number[] {
    const { windows } = this.config;
    return this.windows.map(({ ms }) => leave[windows.findIndex(({ windowMs }) => windowMs === ms)] ?? 0);
  }

  #newId({ app }: PermitRequest): string {
    const { process, origin } = this.options;
    return `${process}.${origin}.${++this.#calls}@${app}`;
  }

  /** The state of both purses, as the queue sees it. */
  state(): LimiterState {
    const at = this.now();
    const { newsElsewhere, config, apps, last } = this;
    return {
      mode: this.isShared(at) ? "shared" : last === undefined ? "joining" : "degraded",
      hasSlot: this.slot.rightUntil() > at,
      windows: config.windows.map((window) => this.#windowState(window, at)),
      today: new Map([...config.perDay].map(([app, perDay]) => [app, dayOf(apps.log, app, perDay, at)])),
      newsElsewhere,
    };
  }

  #windowState(window: RateWindow, at: number): WindowState {
    const { slot, isReachable, opensAt } = this;
    const { windowMs, limit } = window;
    // Redis grants permits in a moment. Calls wait for it.
    if (!this.isShared(at) && isReachable && opensAt <= at + JOIN_MS)
      return windowState(window, { spent: 0, remaining: limit, freeAt: [], byApp: new Map() });
    const byApp = this.apps.byApp(windowMs, at);
    const index = this.windows.findIndex(({ ms }) => ms === windowMs);
    const purse = this.windows[index] ?? { ms: windowMs, limit, own: 0 };
    const own = slot.left(purse, at);
    if (!this.isShared(at)) {
      const opening = isReachable ? repeated(opensAt, MOST_FREE_INSTANTS) : [];
      const freeAt = firstOf([...slot.purse.freeInstants(windowMs, purse.own, at), ...opening]);
      return windowState(window, {
        spent: slot.purse.log.spent(windowMs, at),
        remaining: own,
        freeAt,
        byApp,
      });
    }
    const [shared = 0, left = 0, reported = 0] = this.last?.windows[index] ?? [];
    const spent = shared + reported + slot.unreportedSince(at - windowMs);
    const known = this.apps.log.freeInstants(atLeast(windowMs), at, MOST_FREE_INSTANTS);
    // Calls that the ledger has lost leave the window after it at the latest.
    const missing = Math.max(0, Math.min(spent, MOST_FREE_INSTANTS) - known.length);
    const freeAt = [...known, ...repeated(at + windowMs, missing)];
    return windowState(window, { spent, remaining: own + left, freeAt, byApp });
  }

  /** [3] All that decides the sizes of the own purses. */
  purseName(windows: readonly PurseWindow[]): string {
    return `${this.options.replicas}:${windows.map(({ ms, own }) => `${own}/${ms}`).join(",")}`;
  }

  /** What each request to the script carries. */
  settings(): object {
    const { windows, options, config } = this;
    const { replicas, degradedForMs, ledger, timeoutMs, mostTimeoutMs } = options;
    const [shortest, ...longer] = windows;
    const shortMs = shortest?.ms ?? 0;
    const drift = 3 * DRIFT;
    const mostOften = (shortest?.own ?? 0) * (Math.ceil(degradedForMs / shortMs) + 2);
    const own = Object.fromEntries(windows.map((window) => [String(window.ms), window.own]));
    return {
      windows,
      limits: limitsText(config.windows),
      purses: { name: this.purseName(windows), replicas, own },
      drift,
      // [6] The clocks of two replicas may show times that differ by a tick and the time of two commands.
      slackMs: TICK_MS + 2 * timeoutMs() + 2 * ROUNDING_MS,
      countMs: this.#countMs(),
      // [5] The timeouts of other replicas may be longer. So their calls may count longer, and their clocks may differ more.
      unknownMs: 3 * (mostTimeoutMs - timeoutMs()),
      holdMs: slotHoldMs(degradedForMs + shortMs + this.#countMs(), drift),
      // [4] The most that its holder can have spent in the longer windows after its last report.
      most: longer.map((window) => ({ ms: window.ms, count: Math.min(window.own, mostOften) })),
      joinMs: JOIN_MS,
      tickMs: TICK_MS,
      // How long calls are kept. The script adds the slack.
      keepMs: Math.ceil(keptMs(config.windows) * (1 + 2 * drift)) + this.#countMs(),
      ...ledger,
    };
  }
}

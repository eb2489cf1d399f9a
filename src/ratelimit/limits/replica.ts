/** What a replica knows of the two purses. shared-purse.ts sends its commands, permits.ts decides which purse pays. */
import type { Clock } from "../../process/clock.ts";
import type { OriginName } from "../../interface/resources.ts";
import type { Outage } from "../../telemetry/events.ts";
import { limitsText } from "../../usage/rate-window.ts";
import type { Acquired, LimiterConfig, PermitRequest, WaitingApp } from "../limiter.ts";
import { type AppCounts, createAppCounts } from "./app-counts.ts";
import { keptMs } from "./own-purse.ts";
import {
  atLeast,
  DRIFT,
  pursesOf,
  type PurseSettings,
  type PurseWindow,
  ROUNDING_MS,
} from "./purse-sizes.ts";
import type { RedisPurse, Reply, RequestSettings, Take } from "./redis-script.ts";
import { JOIN_MS, RedisTime } from "./redis-time.ts";
import { Slot } from "./slot.ts";

export interface SharedLimiterOptions extends PurseSettings {
  readonly origin: OriginName;
  readonly config: LimiterConfig;
  readonly redis: RedisPurse;
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly process: string;
  /** [3] A replica without Redis goes on for this long. */
  readonly degradedForMs: number;
  /** A command that takes longer has failed. */
  readonly timeoutMs: number;
  readonly ledger: { readonly retentionMs: number; readonly maxRecords: number };
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  /** Redis refuses the commands of this limiter. An outage of Redis itself is reported elsewhere. */
  readonly outOfOrder: (outage: Outage) => void;
  readonly backInOrder: (what: string) => void;
}

export type Done = Extract<Reply, { kind: "done" }>;

/** A request for a permit of the shared purse. */
export interface Pending {
  readonly take: Take;
  readonly request: PermitRequest;
  readonly resolve: (acquired: Acquired) => void;
}

/** A replica sends a command at least this often. */
export const TICK_MS = 250;

export class Replica {
  readonly options: SharedLimiterOptions;
  readonly time = new RedisTime();
  readonly slot: Slot;
  readonly apps: AppCounts;
  readonly slackMs: number;
  config: LimiterConfig;
  /** The shortest first. */
  windows: readonly PurseWindow[];
  /** A new configuration with other purses. This replica gives its slot back first. */
  next: LimiterConfig | undefined;
  /** The last reply to a command that could change something. */
  last: (Done & { readonly askedAt: number }) | undefined;
  /** [5] The sequence number in the last reply. */
  seen = 0;
  described: { readonly state: NonNullable<Done["state"]>; readonly at: number } | undefined;
  pending: Pending[] = [];
  /** Calls that wait in this process. */
  waiting: readonly WaitingApp[] = [];
  isWaitingReported = true;
  /** What was left in each window when a permit was last refused. */
  leftAtRefusal: readonly number[] | undefined;
  calls = 0;
  commands = 0;
  isReachable = true;
  isWatching = true;
  /** The shared purse has been open to this process. */
  hasOpened = false;
  isOldVersionKnown = false;
  /** A command is under way. */
  isBusy = false;
  isClosing = false;
  isClosed = false;
  /** When the shared purse is likely to be open to this replica. */
  opensAt: number;
  /** When the next command of each kind is due. */
  readonly due: { renew: number; report: number; state: number; tidy: number; follow: number };
  cancelTimer = (): void => undefined;
  /** The listener of the queue. */
  changed = (): void => undefined;
  /** Called after each turn. */
  onTurn = (): void => undefined;

  constructor(options: SharedLimiterOptions) {
    const now = options.clock.monotonic();
    this.options = options;
    // [6] The clocks of two replicas may show times that differ by a tick and the time of two commands.
    this.slackMs = TICK_MS + 2 * options.timeoutMs + 2 * ROUNDING_MS;
    this.slot = new Slot({ degradedForMs: options.degradedForMs, slackMs: this.slackMs });
    this.apps = createAppCounts(options.redis.follow);
    this.config = options.config;
    this.windows = pursesOf(options.config.windows, options);
    this.opensAt = now + JOIN_MS;
    this.due = { renew: now, report: Number.POSITIVE_INFINITY, state: now, tidy: now, follow: now };
  }

  now(): number {
    return this.options.clock.monotonic();
  }

  /** From a grant until the latest arrival of its call. The reply to the grant may take `timeoutMs`. */
  countMs(): number {
    return this.config.arrivalMs + this.options.timeoutMs;
  }

  /** Whether the shared purse is open to this replica. */
  isShared(at: number): boolean {
    return this.isReachable && !this.isWatching && this.last !== undefined && at >= this.opensAt;
  }

  /** What the shared purse has left in each window, as far as this replica knows. */
  sharedLeft(at: number): number[] {
    const isShared = this.isShared(at);
    return this.windows.map((_, index) => (isShared ? (this.last?.windows[index]?.[1] ?? 0) : 0));
  }

  ownLeft(at: number): number[] {
    return this.windows.map((window) => this.slot.left(window, at));
  }

  /** What both purses have left in each window. */
  left(at: number): number[] {
    const own = this.ownLeft(at);
    return this.sharedLeft(at).map((left, index) => left + (own[index] ?? 0));
  }

  /** [3] All that decides the sizes of the own purses. */
  purseName(windows: readonly PurseWindow[]): string {
    return `${this.options.replicas}:${windows.map(({ ms, own }) => `${own}/${ms}`).join(",")}`;
  }

  settings(): RequestSettings {
    const { windows, options, config, slackMs } = this;
    const { replicas, degradedForMs, ledger } = options;
    const [shortest, ...longer] = windows;
    const shortMs = shortest?.ms ?? 0;
    const drift = 3 * DRIFT;
    // What the holder may spend after its last report: its purse, but that of the shortest window as often as that fits.
    const atMostOften = (shortest?.own ?? 0) * (Math.ceil(degradedForMs / shortMs) + 2);
    return {
      windows,
      limits: limitsText(config.windows),
      purses: {
        name: this.purseName(windows),
        replicas,
        own: Object.fromEntries(windows.map(({ ms, own }) => [String(ms), own])),
      },
      drift,
      slackMs,
      countMs: this.countMs(),
      holdMs: Math.ceil((degradedForMs + shortMs + this.countMs()) * (1 + drift)) + 2 * slackMs,
      most: longer.map(({ ms, own }) => ({ ms, count: Math.min(own, atMostOften) })),
      joinMs: JOIN_MS,
      tickMs: TICK_MS,
      keepMs: Math.ceil(keptMs(config.windows) * (1 + 2 * drift)) + this.countMs() + 2 * slackMs,
      ...ledger,
    };
  }

  /** How long this process must remember its own calls. */
  keptMs(): number {
    return atLeast(keptMs(this.config.windows)) + this.countMs();
  }
}

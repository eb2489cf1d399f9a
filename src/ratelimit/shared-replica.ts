/**
 * The state of the shared limiter in this replica. `shared-limiter.ts` decides which command is next. `shared-commands.ts`
 * sends it and updates the state. `shared-permits.ts` decides while Redis does not answer, and shows the state to the queue.
 */
import type { Clock } from "../process/clock.ts";
import type { OriginName, Outage } from "../types.ts";
import { limitsText } from "../usage/rate-window.ts";
import { type EscrowSettings, type EscrowWindow, escrowWindows } from "./escrow.ts";
import { type Acquired, DAY_MS, type LimiterConfig, type PermitRequest, type WaitingApp } from "./limiter.ts";
import { createOwnSends } from "./own-sends.ts";
import type { AskRedis, DescribedState, Digest, RequestSettings, Take } from "./redis-limiter.ts";

export interface SharedLimiterOptions extends EscrowSettings {
  readonly origin: OriginName;
  readonly config: LimiterConfig;
  readonly ask: AskRedis;
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly process: string;
  /**
   * Where this process listens. Only one process at a time has an address, and a process has it until it can send nothing
   * more.
   */
  readonly address: () => string | undefined;
  readonly ledger: { readonly retentionMs: number; readonly maxRecords: number };
  /**
   * Resolves when no replica of an older protocol uses this Redis any more. Only then may this process join. It returns
   * the calls of those replicas that still count.
   */
  readonly admission?: () => Promise<readonly { readonly id: string; readonly ageMs: number }[]>;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  /** Redis refuses the commands of this limiter. An outage of Redis itself is reported elsewhere. */
  readonly outOfOrder: (outage: Outage) => void;
  readonly backInOrder: (what: string) => void;
}

/** While calls wait, replicas exchange this often what waits. */
export const STATE_MS = 250;
/** Time between two commands while Redis does not answer. */
export const RETRY_MS = 100;
/** A replica that waits longer for its first reply started while Redis was away. */
export const AWAY_MS = 3_000;
/** When Redis has no data, it grants nothing for this long, so that replicas that know older data can report. */
export const SETTLE_MS = 2_000;
/** After a loss of data, Redis waits at least this long for a replica that knows what counted in the long windows. */
const RETURN_MS = 10_000;

export interface Pending {
  readonly take: Take;
  readonly request: PermitRequest;
  readonly resolve: (acquired: Acquired) => void;
}

interface LastReply {
  /** Redis' time. */
  readonly time: number;
  readonly askedAt: number;
  readonly receivedAt: number;
}

export class Replica {
  readonly options: SharedLimiterOptions;
  readonly own = createOwnSends();
  config: LimiterConfig;
  windows: readonly EscrowWindow[];
  /** A new configuration. This replica gives its slot back and joins again with it. */
  next: LimiterConfig | undefined;
  /** Permits to request with the next command. */
  pending: Pending[] = [];
  /** Calls that wait in this process. */
  waiting: readonly WaitingApp[] = [];
  isWaitingReported = true;
  /** Permits that were requested. It numbers them. */
  calls = 0;
  lastReply: LastReply | undefined;
  /** Redis answered the last command in time. */
  isReachable = false;
  /** A command has failed since this replica last joined, so the escrow decides. */
  isCutOff = false;
  isJoined = false;
  hasEverJoined = false;
  /** Redis' clock has jumped. */
  hasJumped = false;
  /** The epoch of the data that this replica joined. Each loss of data begins a new epoch. */
  epoch: string | undefined;
  /** The epoch in the last reply. */
  serverEpoch: string | undefined;
  slot: number | undefined;
  quotas: readonly number[] = [];
  acknowledgedAt = Number.NEGATIVE_INFINITY;
  noEffectAfter = Number.NEGATIVE_INFINITY;
  digest: (Omit<Digest, "elapsedMs" | "grantedSince"> & LastReply) | undefined;
  counts: readonly (readonly [spent: number, reserved: number])[] = [];
  /** When Redis is likely to grant permits to this replica. */
  opensAt: number;
  described: DescribedState | undefined;
  describedAt = Number.NEGATIVE_INFINITY;
  /** Permits by app since `describedAt`. */
  readonly granted = new Map<string, number>();
  /** What remained in each window when a permit was last refused. */
  remainingAtRefusal: readonly number[] | undefined;
  startedAt: number;
  startedWithoutRedis = false;
  /** A command is under way, or this process may not join yet. */
  isBusy: boolean;
  isClosing = false;
  isClosed = false;
  /** When the slot is renewed. */
  renewAt: number;
  /** When calls that have ended are reported. */
  reportAt = Number.POSITIVE_INFINITY;
  /** When the described state is requested, while calls wait. */
  stateAt: number;
  cancelTimer = (): void => undefined;
  /** The listener of the queue. */
  changed = (): void => undefined;
  /** Called after each turn. */
  onTurn = (): void => undefined;

  constructor(options: SharedLimiterOptions) {
    const now = options.clock.monotonic();
    this.options = options;
    this.config = options.config;
    this.windows = escrowWindows(options.config.windows, options);
    this.opensAt = now + SETTLE_MS;
    [this.startedAt, this.renewAt, this.stateAt] = [now, now, now];
    this.isBusy = options.admission !== undefined;
  }
}

/** From a grant until the latest arrival of its call. The reply to the grant may take `timeoutMs`. */
export const countMs = ({ config, options }: Replica): number => config.arrivalMs + options.timeoutMs;

export function settingsOf(replica: Replica): RequestSettings {
  const { options, windows, config } = replica;
  const { process, replicas, leaseMs, timeoutMs, degradedForMs, ledger } = options;
  const shortMs = Math.max(0, ...windows.filter(({ isLong }) => !isLong).map(({ ms }) => ms));
  const longestMs = Math.max(DAY_MS, ...windows.map(({ ms }) => ms));
  return {
    process,
    address: options.address(),
    windows,
    limits: limitsText(config.windows),
    replicas,
    leaseMs,
    timeoutMs,
    ...ledger,
    countMs: countMs(replica),
    stopAfterMs: degradedForMs + countMs(replica),
    shortMs,
    settleMs: Math.max(leaseMs, Math.min(SETTLE_MS, shortMs)),
    returnMs: RETURN_MS,
    pollMs: STATE_MS,
    keepMs: longestMs + countMs(replica),
  };
}

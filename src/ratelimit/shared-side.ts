/**
 * What a replica that shares limits knows, in one place: `shared-limiter.ts` talks to Redis, `shared-permits.ts` decides
 * while Redis is away and says how things stand.
 */
import type { Clock } from "../process/clock.ts";
import type { OriginName, Outage } from "../types.ts";
import { limitsText } from "../usage/rate-window.ts";
import { type EscrowSettings, type EscrowWindow, escrowWindows, type Tenure } from "./escrow.ts";
import type { Acquired, LimiterConfig, PermitRequest, WaitingApp } from "./limiter.ts";
import { createOwnSends, type OwnSends } from "./own-sends.ts";
import type { AskRedis, DescribedState, Digest, RequestSettings, Take } from "./redis-limiter.ts";

export interface SharedLimiterOptions extends EscrowSettings {
  readonly origin: OriginName;
  readonly config: LimiterConfig;
  readonly ask: AskRedis;
  readonly clock: Clock;
  /** A name for this process, unlike any other's, past ones included. */
  readonly process: string;
  /**
   * Where this process listens, from when it does until it can send nothing more; unlike the address of any other
   * process that runs.
   */
  readonly address: () => string | undefined;
  readonly ledger: { readonly retentionMs: number; readonly maxRecords: number };
  /**
   * Resolves when this process may join: not while replicas of an older protocol spend from the same Redis. Brings the
   * calls of theirs that still count, by age.
   */
  readonly admission?: () => Promise<readonly { readonly id: string; readonly ageMs: number }[]>;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  /** Called when only this limiter misses Redis: an outage of Redis has a line of its own. */
  readonly outOfOrder: (outage: Outage) => void;
  readonly backInOrder: (what: string) => void;
}

export const DAY_MS = 86_400_000;
/** How often what waits is told, and what waits elsewhere is heard. */
export const STATE_MS = 250;
/** While Redis does not answer it is asked so often. */
export const RETRY_MS = 100;
/** Redis was away when a replica started that waits for longer. */
export const AWAY_MS = 3_000;
/** When Redis has no data, replicas that know of some are waited for so long. */
export const SETTLE_MS = 2_000;
/** After a loss of data, so long at least for one that knows what counted in the long windows. */
const RETURN_MS = 10_000;

export interface Pending {
  readonly take: Take;
  readonly request: PermitRequest;
  readonly resolve: (acquired: Acquired) => void;
}

interface Heard {
  readonly time: number;
  readonly askedAt: number;
  readonly heardAt: number;
}

/** All that changes. */
export interface Side {
  readonly options: SharedLimiterOptions;
  readonly own: OwnSends;
  config: LimiterConfig;
  windows: readonly EscrowWindow[];
  /** A new configuration that is yet to be joined with. */
  next: LimiterConfig | undefined;
  pending: Pending[];
  waiting: readonly WaitingApp[];
  toldWaiting: boolean;
  calls: number;
  last: Heard | undefined;
  isReachable: boolean;
  /** The last attempt has failed: the escrow decides. */
  isCutOff: boolean;
  isJoined: boolean;
  hasEverJoined: boolean;
  hasJumped: boolean;
  /** What this replica has been told: the epoch of the data, and what counted. */
  epoch: string | undefined;
  /** The epoch that Redis is in. */
  serverEpoch: string | undefined;
  slot: number | undefined;
  quotas: readonly number[];
  acknowledgedAt: number;
  noEffectAfter: number;
  digest: (Omit<Digest, "elapsedMs" | "since"> & Heard) | undefined;
  counts: readonly (readonly [spent: number, reserved: number])[];
  /** By then a replica that starts is likely to have joined, and Redis to grant permits. */
  opensAt: number;
  described: DescribedState | undefined;
  describedAt: number;
  /** Permits by app since then. */
  readonly granted: Map<string, number>;
  /** What was left in each window when a permit was last refused. */
  refusedAt: readonly number[] | undefined;
  startedAt: number;
  /** Redis was away when this replica started. */
  startedAlone: boolean;
  isBusy: boolean;
  isClosing: boolean;
  isClosed: boolean;
  renewAt: number;
  endsAt: number;
  stateAt: number;
  cancelTimer: () => void;
  changed: () => void;
  /** Called after each turn. */
  onTurn: () => void;
}

export function createSide(options: SharedLimiterOptions): Side {
  const { config, clock } = options;
  return {
    options,
    own: createOwnSends(),
    config,
    windows: escrowWindows(config.windows, options),
    next: undefined,
    pending: [],
    waiting: [],
    toldWaiting: true,
    calls: 0,
    last: undefined,
    isReachable: false,
    isCutOff: false,
    isJoined: false,
    hasEverJoined: false,
    hasJumped: false,
    epoch: undefined,
    serverEpoch: undefined,
    slot: undefined,
    quotas: [],
    acknowledgedAt: Number.NEGATIVE_INFINITY,
    noEffectAfter: Number.NEGATIVE_INFINITY,
    digest: undefined,
    counts: [],
    opensAt: clock.monotonic() + SETTLE_MS,
    described: undefined,
    describedAt: Number.NEGATIVE_INFINITY,
    granted: new Map(),
    refusedAt: undefined,
    startedAt: clock.monotonic(),
    startedAlone: false,
    isBusy: options.admission !== undefined,
    isClosing: false,
    isClosed: false,
    renewAt: clock.monotonic(),
    endsAt: Number.POSITIVE_INFINITY,
    stateAt: clock.monotonic(),
    cancelTimer: () => undefined,
    changed: () => undefined,
    onTurn: () => undefined,
  };
}

export const countMs = ({ config, options }: Side): number => config.arrivalMs + options.timeoutMs;

export function settingsOf(side: Side): RequestSettings {
  const { options, windows, config } = side;
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
    countMs: countMs(side),
    aloneMs: degradedForMs + countMs(side),
    shortMs,
    settleMs: Math.max(leaseMs, Math.min(SETTLE_MS, shortMs)),
    returnMs: RETURN_MS,
    pollMs: STATE_MS,
    keepMs: longestMs + countMs(side),
  };
}

export function tenureOf({ slot = 0, quotas, acknowledgedAt, noEffectAfter }: Side): Tenure {
  return { slot, quotas, acknowledgedAt, noEffectAfter };
}

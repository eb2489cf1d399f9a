/**
 * The port between the queue and the hard limits.
 *
 * A `Limiter` keeps the limits of one origin (the API, or the thumbnails) in every rolling window. It knows nothing
 * of fairness. It answers one question: may one more call be sent now?
 *
 * | Implementation                     | Decides                                                           |
 * |------------------------------------|-------------------------------------------------------------------|
 * | `limits/single-process-limiter.ts` | in this process                                                   |
 * | `limits/shared-purse.ts`           | in Redis, by one atomic script, and in the own purse of a replica |
 *
 * The queue (`calls.ts`) decides with the rules in `fairness/`: which app is next, and how many permits must be
 * left for others. These rules are approximate. They work on the counts that `state` returns.
 *
 * Instants are milliseconds of the monotonic clock (`Clock.monotonic`) of this process; durations are milliseconds.
 */
import type { Cause, Priority } from "../telemetry/events.ts";
import type { SendEnd, SendPermit } from "./call-facts.ts";
import type { Resource } from "../interface/resources.ts";
import type { RateWindow } from "../usage/rate-window.ts";

/** Windows of `perDay`. */
export const DAY_MS = 86_400_000;
/** Most instants in `WindowState.freeAt`. */
export const MOST_FREE_INSTANTS = 100;

/** A request for one permit. The ledger records parts of it. */
export interface PermitRequest {
  /** The app that is charged. */
  readonly app: string;
  readonly priority: Priority;
  readonly resource: Resource;
  readonly cause: Cause;
  /** Hash of the canonical query. */
  readonly query: string;
  /** Permitted also beyond the limits (`budget.mode: observe`). */
  readonly ignoresLimits?: boolean;
}

/** The right to send one call. It counts from the latest instant at which the call can arrive, until `complete` reports the arrival. */
export interface Permit extends SendPermit {
  readonly id: string;
  readonly request: PermitRequest;
  /** The slot whose own purse pays (limits/own-purse.ts). */
  readonly slot?: number | undefined;
}

/** Why no permit is free. */
export type LimitReason =
  /** A window is used up for all apps. */
  | "budget"
  /** The app has used up its `perDay`. */
  | "per-day"
  /**
   * Redis does not answer, has lost its data, or this replica waits to join, and its own purse is spent or it has none.
   * It is a matter of seconds, not of a window.
   */
  | "redis-away";

export type Acquired =
  | { readonly kind: "permit"; readonly permit: Permit }
  /** Ask again when `state` shows a free permit, or when `onChange` is called. */
  | { readonly kind: "wait"; readonly reason: LimitReason };

/** The limits. `configure` replaces all of them. */
export interface LimiterConfig {
  /** Distinct lengths, at least one. */
  readonly windows: readonly RateWindow[];
  /** Most calls of an app in any 24 hours, for the apps that have such a limit. */
  readonly perDay: ReadonlyMap<string, number>;
  /** Longest time from a permit until its call arrives at the upstream. A later call is not sent. */
  readonly arrivalMs: number;
}

/** What a replica tells the others for the fair order. The limiter only carries it. */
export type News = readonly [what: string, app: string, value: number];

/** News of all other replicas, and when they came. */
export interface Told {
  readonly at: number;
  readonly news: readonly News[];
}

/** The state of a window for all replicas, as far as this process knows. */
export interface WindowState extends RateWindow {
  /** How long a call counts. Longer than `windowMs` if the clocks of replicas may differ. */
  readonly spanMs: number;
  /** Calls that count now, of all replicas. */
  readonly spent: number;
  /** Calls that this process may still make. The rest is kept for the own purses of other replicas. */
  readonly remaining: number;
  /** The next instants at which permits become free, ascending. At the n-th, n more are free. */
  readonly freeAt: readonly number[];
  /** Calls that count now, by app: the largest apps. */
  readonly byApp: ReadonlyMap<string, number>;
  /** Calls that count now, of all other apps. */
  readonly byOthers: number;
  /** The next instants at which calls of an app leave the window, ascending. */
  readonly leaves: (app: string) => readonly number[];
}

export interface LimiterState {
  /**
   * `alone`: there is no Redis, this process decides. `shared`: Redis decides. `joining`: Redis has not let this
   * process work yet, and nothing is granted. `degraded`: Redis does not answer or has lost data, only the own purse pays.
   */
  readonly mode: "alone" | "shared" | "joining" | "degraded";
  /** Whether this process holds a slot, and so has an own purse; absent without Redis. */
  readonly hasSlot?: boolean | undefined;
  readonly windows: readonly WindowState[];
  /** Calls of each app in the last 24 hours, for the apps with `perDay`. */
  readonly today: ReadonlyMap<string, { readonly spent: number; readonly nextFreeAt: number }>;
  /** What the other replicas told last. It is the same object until they tell more. */
  readonly newsElsewhere: Told;
}

export interface Limiter {
  /** Never rejects. */
  readonly acquire: (request: PermitRequest) => Promise<Acquired>;
  /** The call has ended: it counts from its real arrival. */
  readonly complete: (permit: Permit, end: SendEnd) => void;
  /** The call was not sent. The permit is free again. */
  readonly release: (permit: Permit) => void;
  readonly state: () => LimiterState;
  /** Tells the other replicas, with the next command. The last news replace all earlier ones. */
  readonly announce: (news: readonly News[]) => void;
  /** Calls back when a new request for a permit may have another result. One listener. */
  readonly onChange: (listener: () => void) => void;
  readonly configure: (config: LimiterConfig) => void;
  /** Gives back what this process holds, and stops. Never rejects. */
  readonly close: () => Promise<void>;
}

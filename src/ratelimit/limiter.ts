/**
 * The port between the queue and the hard limits.
 *
 * A `Limiter` keeps the limits of one origin (the API, or the thumbnails) in every rolling window. It knows nothing
 * of fairness. It answers one question: may one more call be sent now?
 *
 * | Implementation       | Decides                                                                |
 * |----------------------|------------------------------------------------------------------------|
 * | `local-limiter.ts`   | in this process: no Redis                                              |
 * | `shared-limiter.ts`  | in Redis, by one atomic script; by its own escrow while Redis is away  |
 *
 * The queue (`dispatcher.ts`) asks with the rules of `scheduler.ts`: which app is next, and how many permits must be
 * left for others. These rules are approximate. They work on the counts that `state` returns.
 *
 * Instants are milliseconds of the monotonic clock (`Clock.monotonic`) of this process; durations are milliseconds.
 */
import type { Cause, Priority, SendEnd } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import type { RateWindow } from "../usage/rate-window.ts";

/** What a permit is for, and what the ledger records of the call. */
export interface PermitRequest {
  /** The app that is charged. */
  readonly app: string;
  readonly priority: Priority;
  readonly resource: Resource;
  readonly cause: Cause;
  /** Hash of the canonical query. */
  readonly query: string;
  /**
   * Permits that must be left in each window after this one, in the order of `LimiterConfig.windows`: for background
   * work the reserve, for an app that borrows the room that other apps are entitled to. The limiter checks it in the
   * same atomic step as the limit.
   */
  readonly leave: readonly number[];
}

/** The right to send one call. It counts from the latest instant the call can arrive until `complete` says better. */
export interface Permit {
  readonly id: string;
  readonly request: PermitRequest;
  /**
   * The latest instant (monotonic clock) at which the call may be written to a connected socket. The clock is read in the
   * tick that writes: a process may have stood still before it.
   */
  readonly sendBy?: number;
}

/** Why no permit is free. */
export type LimitReason =
  /** A window is used up for everybody. */
  | "budget"
  /** The window has room, but not more than `leave`. */
  | "reserved"
  /** The app has had its own `perDay`. */
  | "per-day"
  /** The shared state is not known yet: this replica has just started, or Redis has just lost its data. */
  | "joining"
  /** Cut off from Redis for longer than `degradedForMs`. */
  | "degraded-too-long";

export type Acquired =
  | { readonly kind: "permit"; readonly permit: Permit }
  /** Ask again at this instant, or when `onChange` is called. */
  | { readonly kind: "wait"; readonly until: number; readonly reason: LimitReason };

/** Limits in force. Replaced as a whole by `configure`. */
export interface LimiterConfig {
  /** Distinct lengths, at least one. */
  readonly windows: readonly RateWindow[];
  /** Most calls of an app in any 24 hours, for the apps that have such a limit. */
  readonly perDay: ReadonlyMap<string, number>;
  /** Longest time from a permit until its call arrives at the upstream, or is not sent at all. */
  readonly arrivalMs: number;
}

/** Calls that wait in the queue of a process. */
export interface WaitingApp {
  readonly app: string;
  readonly priority: Priority;
  readonly count: number;
}

/** How a window stands for everybody, as far as this process knows. */
export interface WindowState extends RateWindow {
  /** Calls that count now. */
  readonly spent: number;
  /** Not free for this process: escrow of other replicas. */
  readonly reserved: number;
  /** max(0, limit - spent - reserved). */
  readonly remaining: number;
  /** Instants at which permits come free, ascending, at most 100 of them; the n-th says when n more are free. */
  readonly freeAt: readonly number[];
  /** Calls that count now, by app. */
  readonly byApp: ReadonlyMap<string, number>;
}

export interface LimiterState {
  /** `alone`: no Redis. `shared`: Redis decides. `joining`: not yet. `degraded`: Redis is away, the escrow decides. */
  readonly mode: "alone" | "shared" | "joining" | "degraded";
  readonly windows: readonly WindowState[];
  /** Calls of each app in the last 24 hours, for the apps with `perDay`. */
  readonly today: ReadonlyMap<string, { readonly spent: number; readonly nextFreeAt: number }>;
  /** What waits at other replicas, as they said in the last second. */
  readonly waitingElsewhere: readonly WaitingApp[];
}

export interface Limiter {
  /** Never rejects. */
  readonly acquire: (request: PermitRequest) => Promise<Acquired>;
  /** A permit whatever the limits say (`budget.mode: observe`). Never rejects. */
  readonly acquireAnyway: (request: PermitRequest) => Promise<Permit>;
  /** The call has ended: it counts from its real arrival. */
  readonly complete: (permit: Permit, end: SendEnd) => void;
  /** The call was not sent. The permit is free again. */
  readonly release: (permit: Permit) => void;
  readonly state: () => LimiterState;
  /** What waits here, told to the other replicas with the next message. */
  readonly announce: (waiting: readonly WaitingApp[]) => void;
  /** Calls back when asking again may give another answer. One listener. */
  readonly onChange: (listener: () => void) => void;
  readonly configure: (config: LimiterConfig) => void;
  /** Gives back what this process holds and stops. Never rejects. */
  readonly close: () => Promise<void>;
}

/** What the budget of an origin and its parts get: settings, and the parts of the gateway that they need. */
import type { Config } from "../config/config.ts";
import type { OriginName } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import type { Cause, Observer, RefusalReason } from "../telemetry/events.ts";
import type { Apps } from "./apps.ts";
import type { SharedCircuits } from "./circuits/redis-circuits.ts";
import type { Limiter, LimiterConfig } from "./limiter.ts";

/** The settings of an origin's budget. A `Retry-After` of the upstream that is longer than `maxCoolOffMs` is cut to it. */
export type BudgetConfig = LimiterConfig &
  Pick<Config["budget"], "concurrency" | "spacingMs" | "mode" | "reserve" | "replicas" | "maxCoolOffMs">;

export interface BudgetOptions {
  readonly origin: OriginName;
  readonly limiter: Limiter;
  /** `undefined`: there are no other replicas. */
  readonly shared: SharedCircuits | undefined;
  readonly apps: Apps;
  readonly clock: Clock;
  /** From 0 up to 1: jitter. */
  readonly fraction: () => number;
  /** Changes when the upstream's credentials do. */
  readonly keyVersion: () => number;
  /** Each `app` is a metric label. */
  readonly observer: Pick<Observer, "warn" | "outOfOrder" | "backInOrder"> & {
    /** @param isEnforced whether the call was refused, or only would have been (`budget.mode: observe`) */
    readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
    /** A call departs. It is charged to the app. */
    readonly departed: (app: string, cause: Cause, waitedMs: number) => void;
  };
}

/** What each part of a budget gets. `config` returns the settings now in force: a reload changes them. */
export type PartOptions = BudgetOptions & { readonly config: () => BudgetConfig };

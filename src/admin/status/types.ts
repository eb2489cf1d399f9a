/**
 * What the status page shows. Each process describes itself by an `Activity`; the activities of all replicas are added up.
 * All values are JSON values. Instants are epoch milliseconds.
 */
import type { Resource } from "../../interface/resources.ts";
import type { OriginName, Outage, Outcome } from "../../types.ts";
import type { CallCounts } from "./hour.ts";
import type { Counted } from "./top.ts";
import type { UpstreamHealth } from "./upstream-health.ts";

/** What one process, or several together, saw in the last hour. */
export interface Activity {
  readonly processes: readonly ProcessInfo[];
  /** How far back the counts go: an hour, or less after a start. */
  readonly sinceAt: number;
  /** Requests per second in the last seconds. */
  readonly perSecond: OutcomeCounts;
  readonly series: Series;
  readonly outcomes: OutcomeCounts;
  /** Requests that needed no upstream call of their own, by reason. */
  readonly saved: Readonly<Record<string, number>>;
  readonly apps: readonly AppActivity[];
  readonly asked: readonly Counted[];
  /** The slowest requests that waited for the upstream. */
  readonly slowest: readonly SlowRequest[];
  readonly upstream: Readonly<Partial<Record<Resource, UpstreamActivity>>>;
  /** What is out of order now: Redis, the disk and the like. */
  readonly outages: readonly CurrentOutage[];
  readonly problems: readonly RecentProblem[];
  /** Waiting calls, by origin and priority. */
  readonly queue: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Calls to each origin per second: the mean over each of `RATE_PERIODS_MS` until now. */
  readonly callsPerSecond: Readonly<Record<OriginName, readonly number[]>>;
}

export interface ProcessInfo {
  /** Unique to this process. */
  readonly id: string;
  readonly host: string;
  readonly version: string;
  readonly startedAt: number;
}

export type OutcomeCounts = Readonly<Partial<Record<Outcome, number>>>;

/** Requests by outcome over time. Outcomes that did not occur are left out. */
export interface Series {
  readonly stepMs: number;
  /** The number of the last complete step since the epoch. */
  readonly lastStep: number;
  readonly counts: Readonly<Partial<Record<Outcome, readonly number[]>>>;
}

export interface AppActivity {
  readonly app: string;
  readonly requests: number;
  /** Requests that needed no upstream call of their own. */
  readonly saved: number;
  /** Requests that were refused because the budget, or the app's share of it, was spent. */
  readonly refused: number;
}

export interface SlowRequest {
  readonly query: string;
  readonly app: string;
  readonly durationMs: number;
  readonly at: number;
}

/** The calls for a resource in the last hour, and how the latest ones ended. */
interface UpstreamActivity extends CallCounts, UpstreamHealth {}

/** Something that the gateway needs is out of order. */
export interface CurrentOutage extends Pick<Outage, "what" | "cause" | "meanwhile"> {
  readonly since: number;
}

/** A kind of problem, and how often it occurred. */
export interface RecentProblem {
  /** `caller`: a response with a problem; `upstream`: a call that failed; `gateway`: a warning in the log. */
  readonly from: "caller" | "upstream" | "gateway";
  /** The code of the problem, the failure of the call, or the text of the warning. */
  readonly what: string;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** The latest example. */
  readonly query: string | null;
  readonly app: string | null;
}

/** A request that was not a hit. */
export interface RecentRequest {
  readonly at: number;
  readonly app: string;
  readonly outcome: Outcome;
  readonly status: number;
  /** Why it was not a hit, as a sentence. */
  readonly why: string;
  readonly durationMs: number;
}

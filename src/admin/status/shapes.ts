/**
 * What one process saw in the last hour, as a schema. Replicas show each other their activities through Redis, so each is
 * checked and bounded before it is used: a program that can write to Redis must not be able to stop a gateway. Instants
 * are epoch milliseconds.
 */
import { z } from "zod";

import { ORIGINS, RESOURCES } from "../../interface/resources.ts";

export const MOST_PROBLEMS = 500;
export const MOST_SLOW = 10;

const name = z.string().max(10_000);
const count = z.number().nonnegative();
/** Within the range of `Date`. */
const instant = z.number().min(0).max(8.64e15);
const counts = z.record(name, count);
const series = z.record(z.string().regex(/^\d{1,9}$/), counts);

/** How the latest calls for a resource ended. `failingSince`: the first failure after the latest answer. */
const HEALTH = z.object({
  lastAnswerAt: instant.nullable(),
  lastFailureAt: instant.nullable(),
  lastFailure: name.nullable(),
  failingSince: instant.nullable(),
});
/** A kind of problem, how often it occurred since `firstAt`, and the latest example. */
const PROBLEM = z.object({
  /** `caller`: a request without a new answer; `upstream`: a call that failed; `gateway`: a warning in the log. */
  from: z.enum(["caller", "upstream", "gateway"]),
  /** The code of the problem, the failure of the call, or the text of the warning. */
  what: name,
  /** How the requests ended. */
  ended: z.enum(["stale", "refused", "failed", "mistakes"]).nullable(),
  app: name.nullable(),
  resource: name.nullable(),
  status: count.nullable(),
  query: name.nullable(),
  count,
  firstAt: instant,
  lastAt: instant,
});
/** A request that waited for the upstream. */
const SLOW = z.object({ query: name, app: name, durationMs: count, at: instant });

export const ACTIVITY = z.object({
  process: z.object({ id: name, host: name, version: name, startedAt: instant }),
  /** How far back the counts go: an hour, or less after a start. */
  sinceAt: instant,
  counts: z.record(name, counts),
  /** By period of the chart. */
  series: z.object({ "15m": series, "1h": series, "24h": series }),
  health: z.partialRecord(z.enum(RESOURCES), HEALTH),
  /** Waiting calls, by origin and priority. */
  queue: z.record(z.enum(ORIGINS), counts),
  /** What does not work. */
  outages: z.array(z.object({ what: name, cause: name, meanwhile: name, since: instant })).max(MOST_PROBLEMS),
  problems: z.array(PROBLEM).max(MOST_PROBLEMS),
  slowest: z.array(SLOW).max(MOST_SLOW),
});

export type Activity = z.infer<typeof ACTIVITY>;
export type Health = z.infer<typeof HEALTH>;
export type RecentProblem = z.infer<typeof PROBLEM>;
export type SlowRequest = z.infer<typeof SLOW>;

/**
 * What one process saw in the last hour, as a schema. Replicas show each other their activities through Redis, so each is
 * checked and bounded before it is used: a program that can write to Redis must not be able to stop a gateway. Instants
 * are epoch milliseconds.
 */
import { z } from "zod";

import { RESOURCES, ORIGINS } from "../../interface/resources.ts";
import { MOST_STEPS, SPANS } from "./counters.ts";

export const MOST_PROBLEMS = 500;
export const MOST_SLOW = 10;

const name = z.string().max(10_000);
const count = z.number().nonnegative();
/** Within the range of `Date`. */
const instant = z.number().min(0).max(8.64e15);
const counts = z.record(name, count);

/** How the latest calls for a resource ended. `failingSince`: the first failure after the latest answer. */
const HEALTH = z.object({
  lastAnswerAt: instant.nullable(),
  lastFailureAt: instant.nullable(),
  lastFailure: name.nullable(),
  failingSince: instant.nullable(),
});
/** Something that the gateway needs does not work. */
const OUTAGE = z.object({ what: name, cause: name, meanwhile: name, since: instant });
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
const SERIES = z.object({
  stepMs: z.number(),
  lastStep: z.number(),
  counts: z.record(name, z.array(count).max(MOST_STEPS)),
});

export const ACTIVITY = z.object({
  process: z.object({ id: name, host: name, version: name, startedAt: instant }),
  /** How far back the counts go: an hour, or less after a start. */
  sinceAt: instant,
  counts: z.record(name, counts),
  series: z.array(SERIES).length(Object.keys(SPANS).length),
  health: z.partialRecord(z.enum(RESOURCES), HEALTH),
  /** Waiting calls, by origin and priority. */
  queue: z.record(z.enum(ORIGINS), counts),
  outages: z.array(OUTAGE).max(MOST_PROBLEMS),
  problems: z.array(PROBLEM).max(MOST_PROBLEMS),
  slowest: z.array(SLOW).max(MOST_SLOW),
});

export type Activity = z.infer<typeof ACTIVITY>;
export type Health = z.infer<typeof HEALTH>;
export type CurrentOutage = z.infer<typeof OUTAGE>;
export type RecentProblem = z.infer<typeof PROBLEM>;
export type SlowRequest = z.infer<typeof SLOW>;

/** Facts of the status page, for tests of its sentences. */
import type { AppStatus, Facts } from "../../src/admin/status/facts.ts";
import type { RecentProblem } from "../../src/admin/status/recent-problems.ts";

/** 22:40:00 UTC. */
export const AT = Date.UTC(2026, 0, 15, 22, 40);

type Origin = Facts["budget"]["api"];
type Window = Origin["windows"][number];

export const WINDOW: Window = {
  name: "1m",
  limit: 60,
  spent: 10,
  remaining: 50,
  heldBack: 0,
  comesBack: [{ calls: 1, inMs: 12_000 }],
  emptyInMs: null,
};

export function originWith(fields: Partial<Origin> = {}): Origin {
  return { mode: "alone", windows: [WINDOW], circuits: [], ...fields };
}

export const NO_REQUESTS = { cached: 0, stale: 0, fetched: 0, refused: 0, failed: 0, mistakes: 0, gone: 0 };

export function appWith(app: string, fields: Partial<AppStatus> = {}): AppStatus {
  const rest = { isListed: true, weight: 1, failures: {}, spent: {}, shares: [] };
  return { app, ...rest, ...NO_REQUESTS, cached: 10, ...fields };
}

/** By default since 22:38:41. */
export function harmWith(app: string, fields: Partial<RecentProblem> = {}): RecentProblem {
  return {
    from: "caller",
    what: "upstream-unavailable",
    ended: "failed",
    app,
    resource: "listings",
    status: 503,
    query: null,
    count: 1,
    firstAt: AT - 79_000,
    lastAt: AT - 1_000,
    isAnswered: false,
    ...fields,
  };
}

/** All is well, except for what is given. */
export function factsWith(fields: Partial<Facts> = {}): Facts {
  return {
    at: AT,
    mode: "enforce",
    processes: [{ id: "one", host: "host", version: "1.0.0", startedAt: AT - 3_600_000 }],
    scope: "alone",
    sinceAt: AT - 3_600_000,
    queue: { api: {}, images: {} },
    outages: [],
    problems: [],
    slowest: [],
    requests: { ...NO_REQUESTS, cached: 10 },
    perSecond: NO_REQUESTS,
    series: { stepMs: 5_000, lastStep: 0, counts: {} },
    saved: {},
    apps: [],
    freshness: {
      lifetimes: "fixed",
      expected: null,
      expectedFixed: null,
      callsForHalf: null,
      measured: null,
    },
    asked: [],
    upstream: {
      listings: {
        lastAnswerAt: AT - 5_000,
        lastFailureAt: null,
        lastFailure: null,
        failingSince: null,
        calls: 1,
        failed: 0,
        meanMs: 10,
      },
    },
    budget: { api: originWith(), images: originWith() },
    ...fields,
  };
}

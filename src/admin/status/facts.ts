/** The facts of the status: requests, apps, upstream and budget, from the activities of all processes. */
import type { Freshness } from "../../cache/lifetimes/learned-lifetimes.ts";
import { type OriginName, type Resource, RESOURCES } from "../../interface/resources.ts";
import type { Clock } from "../../process/clock.ts";
import type { Apps } from "../../ratelimit/apps.ts";
import type { Budget } from "../../ratelimit/origin-budget.ts";
import type { Together } from "./activity.ts";
import { KINDS, MOST_STEPS, type Span, SPANS } from "./counters.ts";

export type Facts = ReturnType<typeof factsOf>;
export type AppStatus = ReturnType<typeof appsOf>[number];

type Overview = ReturnType<Budget["overview"]>;
type Window = Overview["windows"][number];

export interface FactsOptions {
  readonly budgets: Readonly<Record<OriginName, Budget>>;
  readonly apps: Pick<Apps, "isListed" | "weightOf">;
  readonly clock: Clock;
  readonly mode: () => "enforce" | "observe";
  readonly freshness: () => Freshness;
}

/** @param together the activities of the processes that the status is about */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function factsOf(options: FactsOptions, together: Together, span: Span) {
  const { budgets, clock, mode, freshness } = options;
  const { counts, scope, sinceAt, outages, problems, slowest, processes } = together;
  const at = clock.now();
  const recent = seriesOf("15m", together, at).counts;
  const [api, images] = [budgets.api.overview(), budgets.images.overview()];
  const perSecond = KINDS.map((kind) => [kind, sum(recent[kind]?.slice(-RATE_STEPS) ?? []) / RATE_SECONDS]);
  // The order is that of `/status`: the most important facts first.
  return {
    at,
    mode: mode(),
    sinceAt,
    scope,
    apps: appsOf(options, api, counts),
    budget: {
      api: originStatus(api, recent["api"] ?? [], at),
      images: originStatus(images, recent["images"] ?? [], at),
    },
    /** Waiting calls, by origin and priority. */
    queue: { api: counts["queue api"] ?? {}, images: counts["queue images"] ?? {} },
    upstream: upstreamOf(together),
    outages,
    problems,
    /** Requests of the last hour by kind, and per second in the last seconds. */
    requests: byKind(counts["requests"]),
    perSecond: byKind(Object.fromEntries(perSecond)),
    /** Requests that needed no upstream call of their own, by reason. */
    saved: counts["saved"] ?? {},
    /** How many answers from the cache are out of date, as far as this process knows. */
    freshness: freshness(),
    slowest,
    asked: Object.entries(counts["asked"] ?? {}).map(([query, count]) => ({ query, count })),
    processes,
    series: seriesOf(span, together, at),
  };
}

/** `perSecond` is the mean of this many steps of the first series. */
const RATE_STEPS = 2;
const RATE_SECONDS = (RATE_STEPS * SPANS["15m"]) / 1_000;

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** @returns the requests of each kind. Other counts are left out. */
function byKind(counts: Readonly<Record<string, number>> = {}) {
  const { cached = 0, stale = 0, fetched = 0, refused = 0, failed = 0, mistakes = 0, gone = 0 } = counts;
  return { cached, stale, fetched, refused, failed, mistakes, gone };
}

/** @returns the counts of the complete steps since the start, at most 180, by name. `lastStep` is the number of the last one. */
function seriesOf(span: Span, { counts: all, processes }: Together, now: number) {
  const stepMs = SPANS[span];
  const end = Math.floor(now / stepMs);
  const first = Math.floor(Math.min(...processes.map(({ startedAt }) => startedAt)) / stepMs);
  const length = Math.min(MOST_STEPS, Math.max(0, end - first));
  const steps = Array.from({ length }, (_, at) => all[`${span} ${end - length + at}`] ?? {});
  const names = [...new Set(steps.flatMap((step) => Object.keys(step)))];
  const counts: Record<string, number[]> = Object.fromEntries(
    names.map((name) => [name, steps.map((step) => step[name] ?? 0)]),
  );
  return { stepMs, lastStep: end - 1, counts };
}

const APP = "app ";

/** @returns the apps, the one that got the fewest answers first, then by calls and requests */
function appsOf({ budgets, apps }: FactsOptions, { windows }: Overview, counts: Together["counts"]) {
  const asking = Object.keys(counts).filter((group) => group.startsWith(APP));
  const names = new Set([
    ...asking.map((group) => group.slice(APP.length)),
    ...windows.flatMap(({ byApp }) => Object.keys(byApp)),
  ]);
  const longest = windows.reduce((a, b) => (b.windowMs > a.windowMs ? b : a)).byApp;
  const all = [...names].map((app) => ({
    app,
    isListed: apps.isListed(app),
    weight: apps.weightOf(app),
    ...byKind(counts[APP + app]),
    /** The failed requests by the code of their problem. */
    failures: counts[`failures ${app}`] ?? {},
    spent: Object.fromEntries(windows.map(({ name, byApp }) => [name, byApp[app] ?? 0])),
    shares: budgets.api.shareOf(app),
  }));
  const calls = ({ app }: { app: string }): number => longest[app] ?? 0;
  return all.sort(
    (a, b) =>
      b.refused + b.failed - a.refused - a.failed || calls(b) - calls(a) || requestsOf(b) - requestsOf(a),
  );
}

export function requestsOf(app: ReturnType<typeof byKind>): number {
  return sum(KINDS.map((kind) => app[kind]));
}

/** @returns the state of the resources that were called */
export function upstreamOf(together: Together): Partial<Record<Resource, ReturnType<typeof stateOf>>> {
  const states = RESOURCES.map((resource) => [resource, stateOf(resource, together)] as const);
  return Object.fromEntries(states.filter(([, one]) => (one.lastAnswerAt ?? one.lastFailureAt) !== null));
}

function stateOf(resource: Resource, { counts, answeredAt, problems }: Together) {
  const { calls = 0, failed = 0, givenUp = 0, answeredMs = 0 } = counts[`calls ${resource}`] ?? {};
  const lastAnswerAt = answeredAt[resource] ?? null;
  const failures = problems.filter((one) => one.from === "upstream" && one.resource === resource);
  const after = failures.filter(({ lastAt }) => lastAt > (lastAnswerAt ?? 0));
  const firstAt = Math.min(...after.map((failure) => failure.firstAt));
  return {
    lastAnswerAt,
    lastFailureAt: failures[0]?.lastAt ?? null,
    lastFailure: failures[0]?.what ?? null,
    /** The first failure after the latest answer. */
    failingSince: after.length === 0 ? null : Math.max(lastAnswerAt ?? 0, firstAt),
    calls,
    failed,
    meanMs: calls > failed + givenUp ? answeredMs / (calls - failed - givenUp) : null,
  };
}

/** @param calls per step of the first series, the latest last */
function originStatus({ circuits, ...budget }: Overview, calls: readonly number[], now: number) {
  const counted = circuits.length > 0 ? [] : calls;
  return {
    mode: budget.mode,
    /** `emptyInMs`: the time until nothing is left at the present rate; `null`: something is always left, or not known. */
    windows: budget.windows.map((window) => {
      const { name, limit, spent, remaining, heldBack, comesBack } = window;
      return { name, limit, spent, remaining, heldBack, comesBack, emptyInMs: emptyInMs(window, counted) };
    }),
    circuits: circuits.map(({ sinceMs, forMs, ...circuit }) => ({
      ...circuit,
      since: Math.round(now - sinceMs),
      until: Math.round(now + forMs),
    })),
  };
}

/** A shorter window is empty and full again before anybody could act. */
const SHORTEST_WINDOW_MS = 3_600_000;
const FEWEST_STEPS = 120;
const LATEST_STEPS = 24;

/**
 * Predicts when a rolling window is full if calls continue at this rate. In the long run it contains all calls of its
 * length. Until then, past calls leave the window; the forecast assumes that they were spread evenly over it.
 * @param calls per step of the first series, the latest last
 * @returns `null`: never, or not known, because the series is shorter than ten minutes or the last two minutes had no calls
 */
export function emptyInMs(
  { limit, spent, remaining, windowMs }: Pick<Window, "limit" | "spent" | "remaining" | "windowMs">,
  calls: readonly number[],
): number | null {
  const isKnown = calls.length >= FEWEST_STEPS && sum(calls.slice(-LATEST_STEPS)) > 0;
  const perMs = sum(calls) / (calls.length * SPANS["15m"]);
  if (!isKnown || windowMs < SHORTEST_WINDOW_MS || perMs * windowMs <= limit) return null;
  const netPerMs = perMs - spent / windowMs;
  // If more calls leave the window than enter it, it is full only when it contains calls of this rate alone.
  return Math.round(netPerMs > 0 ? Math.min(remaining / netPerMs, windowMs) : windowMs);
}

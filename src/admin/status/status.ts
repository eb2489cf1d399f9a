/** What the status page and the command `status` show. All values are JSON values; instants are epoch milliseconds. */
import { originOf, type Resource, RESOURCES } from "../../interface/resources.ts";
import type { Clock } from "../../process/clock.ts";
import type { AppIdentity } from "../../ratelimit/apps.ts";
import type { Budget } from "../../ratelimit/budgets.ts";
import { type OriginName, OTHER_APP, type ShareOfWindow } from "../../types.ts";
import {
  type Activity,
  type Board,
  createCollect,
  MOST_ASKED,
  type Scope,
  type Together,
} from "./activity.ts";
import { type Kind, KINDS, type Series, SPANS } from "./counters.ts";
import type { Health, Recorder } from "./recorder.ts";
import { type Sentence, sentencesOf } from "./sentences.ts";

export type Span = keyof typeof SPANS;

export interface Status extends Omit<Together, "counts" | "series" | "health"> {
  readonly at: number;
  readonly scope: Scope;
  readonly mode: "enforce" | "observe";
  /** What an operator has to know first: at most three, the worst first. */
  readonly sentences: readonly Sentence[];
  /** Requests of the last hour by kind, and per second in the last seconds. */
  readonly requests: Readonly<Record<Kind, number>>;
  readonly perSecond: Readonly<Record<Kind, number>>;
  readonly series: Series;
  /** Requests that needed no upstream call of their own, by reason. */
  readonly saved: Readonly<Record<string, number>>;
  readonly apps: readonly AppStatus[];
  readonly asked: readonly { readonly query: string; readonly count: number }[];
  readonly upstream: Readonly<Partial<Record<Resource, UpstreamStatus>>>;
  readonly budget: Readonly<Record<OriginName, OriginStatus>>;
}

/** Requests of an app in the last hour by kind, and its calls in each window. */
export interface AppStatus extends Readonly<Record<Kind, number>> {
  readonly app: string;
  readonly isListed: boolean;
  readonly weight: number;
  /** The `User-Agent` with which this process saw the app first. */
  readonly userAgent: string | null;
  /** The failed requests by the code of their problem. */
  readonly failures: Readonly<Record<string, number>>;
  readonly spent: Readonly<Record<string, number>>;
  readonly shares: readonly ShareOfWindow[];
}

/** The calls for a resource in the last hour, and how the latest ones ended. */
interface UpstreamStatus extends Health {
  readonly calls: number;
  readonly failed: number;
  readonly meanMs: number | null;
}

export interface OriginStatus {
  readonly mode: string;
  readonly windows: readonly {
    readonly name: string;
    readonly limit: number;
    readonly windowMs: number;
    readonly spent: number;
    readonly remaining: number;
    readonly heldBack: number;
    readonly comesBack: readonly { readonly calls: number; readonly inMs: number }[];
    /** The time until nothing is left at the present rate; `null`: something is always left, or the rate is not known. */
    readonly emptyInMs: number | null;
  }[];
  readonly predictedWaitMs: number;
  readonly waitsFor: string | null;
  readonly circuits: readonly {
    readonly scope: string;
    readonly state: "open" | "half-open";
    readonly cause: string;
    readonly since: number;
    readonly until: number;
  }[];
}

export interface StatusOptions {
  readonly process: Activity["process"];
  readonly recorder: Recorder;
  readonly budgets: Readonly<Record<OriginName, Budget>>;
  readonly apps: {
    readonly isListed: (app: string) => boolean;
    readonly weightOf: (app: string) => number;
    readonly identities: () => readonly AppIdentity[];
  };
  readonly clock: Clock;
  readonly board: Board | undefined;
  readonly mode: () => Status["mode"];
}

/** Many pages may be open, so a status is computed at most this often. */
const FRESH_MS = 900;
const MOST_APPS = 200;

/** @returns a function that reads the status of all processes. It never rejects. */
export function createStatus(options: StatusOptions): (span: Span) => Promise<Status> {
  const { clock, board } = options;
  const collect = createCollect(() => activityOf(options), board, clock);
  let known: { readonly at: number; readonly together: ReturnType<typeof collect> } | undefined;
  return async (span) => {
    const now = clock.monotonic();
    if (known === undefined || now >= known.at + FRESH_MS) known = { at: now, together: collect() };
    return statusOf(options, await known.together, span);
  };
}

function activityOf({ process, recorder, budgets }: StatusOptions): Activity {
  const { sinceAt, counts } = recorder.hour();
  return {
    process,
    sinceAt,
    counts: { ...counts, asked: mostOf(counts["asked"] ?? {}, MOST_ASKED) },
    series: recorder.series(),
    health: recorder.health(),
    queue: { api: budgets.api.overview().queue, images: budgets.images.overview().queue },
    ...recorder.read(),
  };
}

function mostOf(counts: Readonly<Record<string, number>>, most: number): Record<string, number> {
  const ranked = Object.entries(counts).sort(([, a], [, b]) => b - a);
  return Object.fromEntries(ranked.slice(0, most));
}

function statusOf(options: StatusOptions, together: Together & { scope: Scope }, span: Span): Status {
  const { budgets, clock, mode } = options;
  const { counts, series, processes, scope, sinceAt, queue, outages, problems, slowest } = together;
  const [shortest] = series;
  const at = clock.now();
  const status = {
    at,
    mode: mode(),
    processes,
    scope,
    sinceAt,
    queue,
    outages,
    problems,
    slowest,
    requests: kindsOf(counts["requests"] ?? {}),
    perSecond: kindsOf(mapValues(shortest?.counts ?? {}, (values) => meanOf(values.slice(-RATE_STEPS)))),
    series: series[Object.keys(SPANS).indexOf(span)] ?? { stepMs: 0, lastStep: 0, counts: {} },
    saved: counts["saved"] ?? {},
    apps: appsOf(options, counts),
    asked: Object.entries(mostOf(counts["asked"] ?? {}, MOST_ASKED)).map(([query, count]) => ({
      query,
      count,
    })),
    upstream: upstreamOf(together),
    budget: {
      api: originStatus("api", budgets.api, together, at),
      images: originStatus("images", budgets.images, together, at),
    },
  };
  return { ...status, sentences: sentencesOf(status) };
}

/** `perSecond` is the mean of this many steps of the first series. */
const RATE_STEPS = 2;
const STEP_SECONDS = SPANS["15m"] / 1_000;

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / (RATE_STEPS * STEP_SECONDS);
}

function mapValues<From, To>(
  of: Readonly<Record<string, From>>,
  change: (value: From) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(of).map(([name, value]) => [name, change(value)]));
}

function kindsOf(counts: Readonly<Record<string, number>>): Record<Kind, number> {
  const { cached = 0, stale = 0, fetched = 0, refused = 0, failed = 0, mistakes = 0, gone = 0 } = counts;
  return { cached, stale, fetched, refused, failed, mistakes, gone };
}

/** @returns the apps, the one that got the fewest answers first, then by calls and requests */
function appsOf({ budgets, apps }: StatusOptions, counts: Together["counts"]): readonly AppStatus[] {
  const { windows } = budgets.api.overview();
  const prefix = "app ";
  const names = new Set([
    ...Object.keys(counts).flatMap((group) => (group.startsWith(prefix) ? [group.slice(prefix.length)] : [])),
    ...windows.flatMap(({ byApp }) => Object.keys(byApp)),
  ]);
  const longest = windows.reduce((a, b) => (b.windowMs > a.windowMs ? b : a)).byApp;
  const agents = new Map(apps.identities().map(({ app, userAgent }) => [app, userAgent]));
  const harm = ({ refused, failed }: AppStatus): number => refused + failed;
  const requests = (of: AppStatus): number => KINDS.reduce((sum, kind) => sum + of[kind], 0);
  return [...names]
    .map((app) => ({
      app,
      isListed: apps.isListed(app),
      weight: apps.weightOf(app),
      userAgent: agents.get(app) ?? null,
      ...kindsOf(counts[prefix + app] ?? {}),
      failures: counts[`failures ${app}`] ?? {},
      spent: Object.fromEntries(windows.map(({ name, byApp }) => [name, byApp[app] ?? 0])),
      shares: [],
    }))
    .sort(
      (a, b) =>
        harm(b) - harm(a) || (longest[b.app] ?? 0) - (longest[a.app] ?? 0) || requests(b) - requests(a),
    )
    .slice(0, MOST_APPS)
    .map((line) => ({ ...line, shares: budgets.api.shareOf(line.app) }));
}

function upstreamOf({ counts, health }: Together): Status["upstream"] {
  return Object.fromEntries(
    RESOURCES.flatMap((resource) => {
      const state = health[resource];
      if (state === undefined) return [];
      const { calls = 0, failed = 0, answeredMs = 0 } = counts[`calls ${resource}`] ?? {};
      const meanMs = calls > failed ? answeredMs / (calls - failed) : null;
      return [[resource, { ...state, calls, failed, meanMs }]];
    }),
  );
}

function originStatus(name: OriginName, budget: Budget, { series }: Together, now: number): OriginStatus {
  const { mode, windows, circuits } = budget.overview();
  const resource = RESOURCES.find((one) => originOf(one) === name) ?? "listings";
  const { forMs, why } = budget.expect({ app: OTHER_APP, priority: "interactive", resource });
  const perMs = callsPerMs(series[0]?.counts[name] ?? []);
  return {
    mode,
    windows: windows.map((window) => ({
      name: window.name,
      limit: window.limit,
      windowMs: window.windowMs,
      spent: window.spent,
      remaining: window.remaining,
      heldBack: window.reserved,
      comesBack: window.comesBack,
      emptyInMs: emptyInMs(window, perMs),
    })),
    predictedWaitMs: Math.round(forMs),
    waitsFor: forMs > 0 ? why : null,
    circuits: circuits.map(({ scope, state, cause, sinceMs, forMs: lastsMs }) => ({
      scope,
      state,
      cause,
      since: Math.round(now - sinceMs),
      until: Math.round(now + lastsMs),
    })),
  };
}

/** Less says nothing about the next hours. */
const FEWEST_STEPS = 120;
/** A shorter window is empty and full again before anybody could act. */
const SHORTEST_WINDOW_MS = 3_600_000;

/** @returns the mean rate of calls over at least ten minutes; 0 if the time was shorter */
function callsPerMs(calls: readonly number[]): number {
  if (calls.length < FEWEST_STEPS) return 0;
  return calls.reduce((sum, count) => sum + count, 0) / (calls.length * SPANS["15m"]);
}

/**
 * Predicts when a rolling window is full if calls continue at this rate. In the long run it contains all calls of its
 * length. Until then, past calls leave the window; the forecast assumes that they were spread evenly over it.
 */
export function emptyInMs(
  { limit, spent, remaining, windowMs }: Omit<OriginStatus["windows"][number], "heldBack" | "emptyInMs">,
  perMs: number,
): number | null {
  if (windowMs < SHORTEST_WINDOW_MS || perMs * windowMs <= limit) return null;
  const netPerMs = perMs - spent / windowMs;
  // If more calls leave the window than enter it, it is full only when it contains calls of this rate alone.
  return Math.round(netPerMs > 0 ? Math.min(remaining / netPerMs, windowMs) : windowMs);
}

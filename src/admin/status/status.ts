/**
 * What the status page shows: what happened in all processes, and the present state of the budgets.
 *
 * With Redis, all replicas share the budgets and circuits, so this process reads only its own view of them.
 */
import { originOf, RESOURCES } from "../../interface/resources.ts";
import type { Clock } from "../../process/clock.ts";
import type { Apps } from "../../ratelimit/apps.ts";
import type { Budget } from "../../ratelimit/budgets.ts";
import { type OriginName, ORIGINS, OTHER_APP, type ShareOfWindow } from "../../types.ts";
import { type Forecast, forecast } from "./forecast.ts";
import { merge } from "./merge.ts";
import { type Board, createPeers, type Scope } from "./peers.ts";
import type { Recorder } from "./recorder.ts";
import { RATE_PERIODS_MS } from "./series.ts";
import type { Activity, AppActivity } from "./types.ts";

export interface StatusOptions {
  readonly recorder: Recorder;
  readonly budgets: Readonly<Record<OriginName, Budget>>;
  readonly apps: Pick<Apps, "isListed" | "weightOf">;
  readonly clock: Clock;
  /** `undefined`: there are no other replicas. */
  readonly board: Board | undefined;
  /** `budget.mode` of the settings in force. */
  readonly mode: () => string;
}

/** The answer of `GET /status`. Instants are epoch milliseconds. */
export interface Status extends Omit<Activity, "apps"> {
  readonly at: number;
  readonly scope: Scope;
  /** `budget.mode`: `observe` refuses nothing. */
  readonly mode: string;
  readonly budget: Readonly<Record<OriginName, OriginStatus>>;
  readonly apps: readonly AppStatus[];
}

type Overview = ReturnType<Budget["overview"]>;

interface OriginStatus {
  readonly mode: Overview["mode"];
  readonly windows: readonly (Omit<Overview["windows"][number], "byApp" | "reserved"> &
    Forecast & { readonly heldBack: number })[];
  /** How long a request of an unlisted app would wait now, and for what. */
  readonly predictedWaitMs: number;
  readonly waitsFor: string | null;
  readonly circuits: readonly {
    readonly scope: string;
    readonly state: string;
    readonly cause: string;
    readonly since: number;
    readonly until: number;
  }[];
}

interface AppStatus extends AppActivity {
  readonly isListed: boolean;
  readonly weight: number;
  /** Calls of the API budget that count now, by window. */
  readonly spent: Readonly<Record<string, number>>;
  /** Its share of each window. */
  readonly shares: readonly ShareOfWindow[];
}

const MOST_APPS = 15;
/** A status is reused for this long, so many open pages cost no more than one. */
const FRESH_MS = 500;
/** The version of an activity's format. */
const FORM = 1;

/** @returns a function that reads the status. It never rejects. */
export function createStatus(options: StatusOptions): () => Promise<Status> {
  const { clock, board } = options;
  const look = createPeers({ board, clock, form: FORM, own: () => activityOf(options) });
  let known: { readonly at: number; readonly status: Promise<Status> } | undefined;

  async function read(): Promise<Status> {
    const { scope, all } = await look();
    return statusOf(options, merge(all), scope);
  }

  return async () => {
    const now = clock.monotonic();
    if (known === undefined || now >= known.at + FRESH_MS) known = { at: now, status: read() };
    return await known.status;
  };
}

function activityOf({ recorder, budgets }: StatusOptions): Activity {
  const queue = ORIGINS.map((origin) => [origin, budgets[origin].overview().queue] as const);
  return { ...recorder.activity(), queue: Object.fromEntries(queue) };
}

function statusOf(options: StatusOptions, activity: Activity, scope: Scope): Status {
  const { budgets, clock, mode } = options;
  const { api, images } = budgets;
  return {
    at: clock.now(),
    scope,
    mode: mode(),
    ...activity,
    budget: {
      api: originStatus("api", api, activity, clock.now()),
      images: originStatus("images", images, activity, clock.now()),
    },
    apps: appsOf(options, activity.apps),
  };
}

function originStatus(name: OriginName, budget: Budget, activity: Activity, now: number): OriginStatus {
  const { mode, windows, circuits } = budget.overview();
  const resource = RESOURCES.find((one) => originOf(one) === name) ?? "listings";
  const { forMs, why } = budget.expect({ app: OTHER_APP, priority: "interactive", resource });
  const rate = { callsPerSecond: activity.callsPerSecond[name], periodsMs: RATE_PERIODS_MS };
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
      ...forecast({ ...window, ...rate }),
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

/** @returns the apps with the most calls or requests, listed or not */
function appsOf({ budgets, apps }: StatusOptions, active: readonly AppActivity[]): readonly AppStatus[] {
  const { windows } = budgets.api.overview();
  const names = new Set([
    ...active.map(({ app }) => app),
    ...windows.flatMap(({ byApp }) => Object.keys(byApp)),
  ]);
  const longest = windows.reduce((a, b) => (b.windowMs > a.windowMs ? b : a)).byApp;
  return [...names]
    .map((app) => ({
      ...(active.find((one) => one.app === app) ?? { app, requests: 0, saved: 0, refused: 0 }),
      isListed: apps.isListed(app),
      weight: apps.weightOf(app),
      spent: Object.fromEntries(windows.map(({ name, byApp }) => [name, byApp[app] ?? 0])),
    }))
    .sort((a, b) => (longest[b.app] ?? 0) - (longest[a.app] ?? 0) || b.requests - a.requests)
    .slice(0, MOST_APPS)
    .map((line) => ({ ...line, shares: budgets.api.shareOf(line.app) }));
}

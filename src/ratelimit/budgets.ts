/**
 * The budget of an origin: its limiter, its circuits and its queue. It also shows their state to callers, operators and
 * metrics.
 */
import type { Problem } from "../errors.ts";
import { originOf, type Resource, RESOURCES } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import {
  type Cause,
  type Observer,
  type OriginName,
  OTHER_APP,
  type Outage,
  PRIORITIES,
  type Priority,
  type ShareOfWindow,
} from "../types.ts";
import type { Apps } from "./apps.ts";
import type { CircuitCause, CircuitScope } from "./circuit-breaker.ts";
import { type Circuits, type CircuitsOptions, createCircuits, type SharedCircuits } from "./circuits.ts";
import type { DispatcherConfig } from "./departures.ts";
import { createDispatcher, type Dispatcher } from "./dispatcher.ts";
import type { QueueKind } from "./fair-queue.ts";
import type { Limiter, LimiterConfig, LimiterState } from "./limiter.ts";
import { type Expectation, type RefusalReason, retryAfterSeconds } from "./problems.ts";
import { shareOf, type View } from "./scheduler.ts";

/** The settings of the budget of an origin. */
export interface BudgetConfig extends DispatcherConfig, LimiterConfig {
  readonly maxCoolOffMs: number;
}

interface BudgetObserver extends Pick<Observer, "warn" | "outOfOrder" | "backInOrder"> {
  /** @param app a metric label */
  readonly refused: (app: string, reason: RefusalReason | "deadline", isEnforced: boolean) => void;
  readonly departed: (app: string, cause: Cause, waitedMs: number) => void;
}

export interface BudgetOptions {
  readonly origin: OriginName;
  readonly limiter: Limiter;
  readonly sharedCircuits: SharedCircuits;
  readonly apps: Apps;
  readonly clock: Clock;
  /** From 0 up to 1: jitter. */
  readonly fraction: () => number;
  readonly observer: BudgetObserver;
  /** Changes when the upstream's credentials do. */
  readonly keyVersion: () => number;
}

/** The state of an origin's budget, for operators. */
interface BudgetOverview {
  readonly mode: LimiterState["mode"];
  readonly windows: readonly {
    readonly name: string;
    readonly limit: number;
    readonly windowMs: number;
    readonly spent: number;
    /** Own purses of other replicas. They are not free for this process. */
    readonly reserved: number;
    readonly remaining: number;
    /** After `inMs`, this many spent calls are free again. Empty if none is spent. */
    readonly comesBack: readonly { readonly calls: number; readonly inMs: number }[];
    /** Calls that count now, of the apps that sent most. The rest is `other`. */
    readonly byApp: Readonly<Record<string, number>>;
  }[];
  /** Waiting calls, by priority. */
  readonly queue: Readonly<Record<string, number>>;
  readonly circuits: ReturnType<Circuits["overview"]>;
}

export interface Budget {
  /** Runs a job when it is its turn. See `Throttled`. The job also gets its permit. */
  readonly run: Dispatcher["run"];
  /** How long a new call would wait, and for what. Nothing is spent. */
  readonly expect: (kind: QueueKind) => Expectation;
  /** Whether a circuit stops a call for this question now. */
  readonly isCoolingOff: (question: { readonly resource: Resource; readonly query: string }) => boolean;
  /** Seconds until a circuit allows the next call, if one is open. For the `Retry-After` of failures. */
  readonly retryAfterSeconds: (resource: Resource) => number | undefined;
  readonly queueLength: (priority: Priority) => number;
  /** What an app has left of its share of each window, and of its `perDay`. The same array for half a second. */
  readonly shareOf: (app: string) => readonly ShareOfWindow[];
  /** The remaining part, from 0 to 1, of the window with the least. At most half a second old. */
  readonly left: () => number;
  readonly overview: () => BudgetOverview;
  readonly configure: (config: BudgetConfig) => void;
  /**
   * Sets the listener that sends a probe. It is called when the credentials may be tried again and no caller asks a
   * question that was answered before.
   */
  readonly onProbeWanted: (listener: () => void) => void;
  /** Rejects all waiting calls and all new ones. */
  readonly stop: (why: Problem) => void;
  /** Gives back what this process holds. Never rejects. */
  readonly close: () => Promise<void>;
}

/** Shares change with every call at any replica. They are computed again after this time. */
const SHARES_FOR_MS = 500;
/** Apps that an overview names. */
const MOST_NAMED = 20;
const DAY_SECONDS = 86_400;
/** An overview shows when this many spent calls are free again. */
const COME_BACK = [1, 10, 100];

export function createBudget(options: BudgetOptions, config: BudgetConfig): Budget {
  const { limiter, apps, clock, fraction, observer, keyVersion, sharedCircuits: shared } = options;
  const now = clock.monotonic;
  let probeWanted = (): void => undefined;
  const circuits = createCircuits(
    {
      shared,
      now,
      keyVersion,
      fraction,
      probeWanted: () => probeWanted(),
      warn: observer.warn,
      onState: reportOutages(options),
    },
    config,
  );
  const shares = remembered<readonly ShareOfWindow[]>(now);
  const left = remembered<number>(now);
  const dispatcher = createDispatcher(
    {
      limiter,
      circuits,
      apps: { ...apps, perDayOf: (app) => config.perDay.get(app) ?? null },
      keyVersion,
      clock,
      fraction,
      observer: {
        refused: (app, reason, isEnforced) => observer.refused(apps.labelOf(app), reason, isEnforced),
        departed({ app, cause }, waitedMs) {
          shares.forget(app);
          observer.departed(apps.labelOf(app), cause, waitedMs);
        },
      },
    },
    config,
  );
  return {
    run: dispatcher.run,
    expect: dispatcher.expect,
    isCoolingOff: ({ resource, query }) => isStopped(circuits, resource, query),
    retryAfterSeconds(resource) {
      const forMs = stoppedForMs(circuits, resource);
      return forMs > 0 ? retryAfterSeconds(forMs) : undefined;
    },
    queueLength: dispatcher.queueLength,
    shareOf: (app) => shares.get(app, () => sharesIn(dispatcher.view(), app)),
    left: () => left.get("", () => partLeft(limiter.state())),
    overview: () => overviewOf(limiter.state(), dispatcher, circuits, now()),
    configure(next) {
      config = next;
      limiter.configure(next);
      circuits.configure(next);
      dispatcher.configure(next);
      shares.forget();
    },
    onProbeWanted: (listener) => void (probeWanted = listener),
    stop: dispatcher.close,
    close: limiter.close,
  };
}

function reportOutages({ origin, observer }: BudgetOptions): CircuitsOptions["onState"] {
  return (scope, circuit) => {
    if (circuit === undefined) observer.backInOrder(outageName(origin, scope));
    else observer.outOfOrder(outageOf(origin, scope, circuit));
  };
}

const CAUSES: Readonly<Record<CircuitCause, string>> = {
  "too-many-requests": "it answered 429: too many requests",
  unavailable: "it answered 503 with a time to come back",
  failing: "most of its last answers were errors or timeouts",
  unreachable: "no connection could be made",
  credentials: "it refused our credentials",
};

const MEANWHILE =
  "Callers get cached answers, also stale ones if cache.staleIfError allows it, else 503. From time to time one call " +
  "tests whether the upstream is back.";
const MEANWHILE_PAUSED =
  "Callers get cached answers, also stale ones if cache.staleIfError allows it. Others wait if their deadline allows it, " +
  "else they get 503 or 429.";

/** Describes an open circuit as an outage of the upstream. */
function outageOf(
  origin: OriginName,
  scope: CircuitScope,
  circuit: { readonly cause: CircuitCause; readonly isAsked: boolean },
): Outage {
  return {
    what: outageName(origin, scope),
    cause: CAUSES[circuit.cause],
    meanwhile: circuit.isAsked ? MEANWHILE_PAUSED : MEANWHILE,
    resources: scope === "origin" ? RESOURCES.filter((one) => originOf(one) === origin) : [scope],
  };
}

/** As in the label of `gateway_circuit_state`. */
function outageName(origin: OriginName, scope: CircuitScope): string {
  return `upstream ${origin}/${scope === "origin" ? "all" : scope}`;
}

function isStopped(circuits: Circuits, resource: Resource, question: string): boolean {
  return "until" in circuits.passage({ resource, question, cause: "miss" });
}

/** How long circuits still stop calls for a resource. At least a millisecond while one is half-open. */
function stoppedForMs(circuits: Circuits, resource: Resource): number {
  const stopping = circuits.overview().filter(({ scope }) => scope === "origin" || scope === resource);
  return Math.max(0, ...stopping.map(({ forMs }) => Math.max(1, forMs)));
}

function partLeft({ windows }: LimiterState): number {
  return Math.min(...windows.map(({ remaining, limit }) => remaining / limit));
}

function sharesIn(view: View, app: string): readonly ShareOfWindow[] {
  const { state, now, config } = view;
  const secondsUntil = (at: number): number => Math.max(1, Math.ceil((at - now) / 1000));
  const shares = state.windows.map((window): ShareOfWindow => {
    const limit = shareOf(view, window, app);
    const { name, windowMs, remaining, freeAt } = window;
    return {
      name,
      limit,
      windowSeconds: Math.ceil(windowMs / 1000),
      remaining: Math.max(0, Math.min(limit - (window.byApp.get(app) ?? 0), remaining)),
      resetSeconds: secondsUntil(freeAt[0] ?? now + windowMs),
    };
  });
  const perDay = config.apps.perDayOf(app);
  if (perDay === null) return shares;
  const { spent, nextFreeAt } = state.today.get(app) ?? { spent: 0, nextFreeAt: now + DAY_SECONDS * 1000 };
  const ownDay = { name: "per-day", limit: perDay, windowSeconds: DAY_SECONDS };
  return [
    ...shares,
    { ...ownDay, remaining: Math.max(0, perDay - spent), resetSeconds: secondsUntil(nextFreeAt) },
  ];
}

function overviewOf(
  { mode, windows }: LimiterState,
  { queueLength }: Dispatcher,
  circuits: Circuits,
  now: number,
): BudgetOverview {
  const queue = PRIORITIES.map((priority) => [priority, queueLength(priority)] as const);
  return {
    mode,
    windows: windows.map(({ name, limit, windowMs, spent, reserved, remaining, byApp, freeAt }) => ({
      name,
      limit,
      windowMs,
      spent,
      reserved,
      remaining,
      comesBack: COME_BACK.flatMap((calls) => {
        const at = freeAt[calls - 1];
        return at === undefined ? [] : [{ calls, inMs: Math.max(0, at - now) }];
      }),
      byApp: topApps(byApp),
    })),
    queue: Object.fromEntries(queue),
    circuits: circuits.overview(),
  };
}

/** The apps that sent most, by name. The rest is `other`. */
export function topApps(byApp: ReadonlyMap<string, number>, most = MOST_NAMED): Record<string, number> {
  const sorted = [...byApp]
    .filter(([app, sent]) => sent > 0 && app !== OTHER_APP)
    .toSorted((a, b) => b[1] - a[1]);
  const rest = sorted.slice(most).reduce((sum, [, sent]) => sum + sent, byApp.get(OTHER_APP) ?? 0);
  return Object.fromEntries(rest > 0 ? [...sorted.slice(0, most), [OTHER_APP, rest]] : sorted.slice(0, most));
}

const MOST_REMEMBERED = 500;

interface Remembered<T> {
  readonly get: (key: string, read: () => T) => T;
  /** @param key without it, everything is forgotten */
  readonly forget: (key?: string) => void;
}

function remembered<T>(now: () => number): Remembered<T> {
  const known = new Map<string, { readonly until: number; readonly value: T }>();
  return {
    get(key, read) {
      const last = known.get(key);
      if (last !== undefined && now() < last.until) return last.value;
      const value = read();
      if (known.size >= MOST_REMEMBERED) known.clear();
      known.set(key, { until: now() + SHARES_FOR_MS, value });
      return value;
    },
    forget: (key) => void (key === undefined ? known.clear() : known.delete(key)),
  };
}

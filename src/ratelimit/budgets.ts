/**
 * The budget of an origin: its limiter, its circuits, and the queue in front of them; and how it stands, in
 * the forms in which callers, operators and metrics are shown it.
 */
import type { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import {
  type Cause,
  type Observer,
  type OriginName,
  OTHER_APP,
  PRIORITIES,
  type Priority,
  type ShareOfWindow,
} from "../types.ts";
import type { Apps } from "./apps.ts";
import { outageName, outageOf } from "./circuit-outages.ts";
import { type Circuits, type CircuitsOptions, createCircuits, type SharedCircuits } from "./circuits.ts";
import type { DispatcherConfig } from "./departures.ts";
import { createDispatcher, type Dispatcher } from "./dispatcher.ts";
import type { QueueKind } from "./fair-queue.ts";
import type { Limiter, LimiterConfig, LimiterState } from "./limiter.ts";
import { type Expectation, type RefusalReason, retryAfterSeconds } from "./problems.ts";
import { shareOf, type View } from "./scheduler.ts";

/** What the settings say of the budget of an origin. */
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

/** How an origin's budget stands. */
interface BudgetOverview {
  readonly mode: LimiterState["mode"];
  readonly windows: readonly {
    readonly name: string;
    readonly limit: number;
    readonly windowMs: number;
    readonly spent: number;
    /** Not free for this process: escrow of other replicas. */
    readonly reserved: number;
    readonly remaining: number;
    /** When spent calls come back: after `inMs`, that many of them. Empty if none is spent. */
    readonly comesBack: readonly { readonly calls: number; readonly inMs: number }[];
    /** Calls that count now, of the apps that sent most; the rest as `other`. */
    readonly byApp: Readonly<Record<string, number>>;
  }[];
  /** Calls that wait, by priority. */
  readonly queue: Readonly<Record<string, number>>;
  readonly circuits: ReturnType<Circuits["overview"]>;
}

export interface Budget {
  /** Runs a job when its turn has come; see `Throttled`. The job is handed its permit, too. */
  readonly run: Dispatcher["run"];
  /** How long a call that came now would wait, and for what; nothing is spent. */
  readonly expect: (kind: QueueKind) => Expectation;
  /** Whether the upstream is left alone for now, as far as a question is concerned. */
  readonly isCoolingOff: (question: { readonly resource: Resource; readonly query: string }) => boolean;
  /** Seconds until the upstream is asked again, where it is left alone: for responses that tell of its failure. */
  readonly retryAfterSeconds: (resource: Resource) => number | undefined;
  readonly queueLength: (priority: Priority) => number;
  /** What an app has left of its share of each window, and of its calls of a day. The same array for half a second. */
  readonly shareOf: (app: string) => readonly ShareOfWindow[];
  /** The part that is left, from 0 to 1, of the window that has least. Half a second old at most. */
  readonly left: () => number;
  readonly overview: () => BudgetOverview;
  readonly configure: (config: BudgetConfig) => void;
  /**
   * Sets the listener that sends a probe: the credentials may be tried again, and no caller asks a question that was
   * answered before.
   */
  readonly onProbeWanted: (listener: () => void) => void;
  /** Rejects all calls that wait, and those to come. */
  readonly stop: (why: Problem) => void;
  /** Gives back what this process holds. Never rejects. */
  readonly close: () => Promise<void>;
}

/** Shares change with every call, here or at another replica: they are read anew after this time. */
const SHARES_FOR_MS = 500;
/** Apps that an overview names. */
const MOST_NAMED = 20;
const DAY_SECONDS = 86_400;
/** Of so many calls an overview says when they come back. */
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

/** Whether a circuit stops a call for this question now. */
function isStopped(circuits: Circuits, resource: Resource, question: string): boolean {
  return "until" in circuits.passage({ resource, question, cause: "miss" });
}

/** How long circuits stop calls for a resource yet; a millisecond at least while one is half-open. */
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

/** The apps that sent most, by name; the rest as `other`. */
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
  /** @param key everything, where it is absent */
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

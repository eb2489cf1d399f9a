/** The budget of an origin: its limiter, its circuits and its calls. */
import type { Problem } from "../errors.ts";
import type { Resource, OriginName } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import {
  type Cause,
  type Observer,
  PRIORITIES,
  type Priority,
  type RefusalReason,
} from "../telemetry/events.ts";
import type { Apps } from "./apps.ts";
import { Calls, type CallsConfig } from "./calls.ts";
import { Circuits, type SharedCircuits } from "./circuits/circuits.ts";
import { outageName, outageOf } from "./circuits/outages.ts";
import type { CircuitScope } from "./circuits/opening.ts";
import type { Limiter, LimiterConfig, LimiterState, WindowState } from "./limiter.ts";
import { remembered, sharesAt, type WindowOverview, windowsIn, type ShareOfWindow } from "./overview.ts";
import { retryAfterSeconds } from "./refusals.ts";

export interface BudgetConfig extends CallsConfig, LimiterConfig {
  readonly maxCoolOffMs: number;
}

export interface BudgetOptions {
  readonly origin: OriginName;
  readonly limiter: Limiter;
  readonly sharedCircuits: SharedCircuits;
  readonly apps: Apps;
  readonly clock: Clock;
  /** From 0 up to 1: jitter. */
  readonly fraction: () => number;
  readonly observer: Pick<Observer, "warn" | "outOfOrder" | "backInOrder"> & {
    /** @param app a metric label */
    readonly refused: (app: string, reason: RefusalReason, isEnforced: boolean) => void;
    readonly departed: (app: string, cause: Cause, waitedMs: number) => void;
  };
  /** Changes when the upstream's credentials do. */
  readonly keyVersion: () => number;
}

/** The state of an origin's budget, for operators. */
interface BudgetOverview {
  readonly mode: LimiterState["mode"];
  readonly hasSlot: LimiterState["hasSlot"];
  readonly windows: readonly WindowOverview[];
  /** Waiting calls, by priority. */
  readonly queue: Readonly<Record<string, number>>;
  readonly circuits: ReturnType<Circuits["overview"]>;
}

export interface Budget extends Pick<Calls, "run" | "expect" | "inFlight"> {
  /** Whether a circuit stops a call for this question now. */
  readonly isCoolingOff: (question: { readonly resource: Resource; readonly query: string }) => boolean;
  /** Seconds until a circuit allows the next call, if one is open. For the `Retry-After` of failures. */
  readonly retryAfterSeconds: (resource: Resource) => number | undefined;
  readonly queueLength: (priority: Priority) => number;
  /** What an app has left of its share of each window, and of its `perDay`. The same array for half a second. */
  readonly shareOf: (app: string) => readonly ShareOfWindow[];
  /** At most half a second old. */
  readonly windows: () => readonly WindowState[];
  readonly circuits: Circuits["overview"];
  readonly overview: () => BudgetOverview;
  readonly configure: (config: BudgetConfig) => void;
  /**
   * Sets the listener that sends a probe. It is called when the credentials may be tried again and no caller asks a
   * question that was answered before, and by `tryCircuits`.
   */
  readonly onProbeWanted: (listener: () => void) => void;
  /** The next call is a probe of the open circuits. @returns the circuits that were open */
  readonly tryCircuits: () => readonly CircuitScope[];
  /** Rejects all waiting calls and all new ones. Resolves when the calls in flight have ended. */
  readonly stop: (why: Problem) => Promise<void>;
  /** Gives back what this process holds. Never rejects. */
  readonly close: () => Promise<void>;
}

interface View {
  readonly windows: readonly WindowState[];
  readonly sharesOf: ReturnType<typeof sharesAt>;
}

export function createBudget(options: BudgetOptions, config: BudgetConfig): Budget {
  const { limiter, apps, clock, observer } = options;
  const now = clock.monotonic;
  let probeWanted = (): void => undefined;
  const circuits = circuitsOf(options, config, () => probeWanted());
  const shares = remembered<readonly ShareOfWindow[]>(now);
  // All apps share one view, because computing it takes time in proportion to their number.
  const view = remembered<View>(now);
  const current = (): View =>
    view.get("", () => {
      const situation = calls.situation();
      return { windows: situation.state.windows, sharesOf: sharesAt(situation) };
    });
  const forgetShares = (): void => {
    shares.forget();
    view.forget();
  };
  const calls = new Calls(
    {
      ...options,
      circuits,
      apps: { ...apps, perDayOf: (app) => config.perDay.get(app) ?? null },
      observer: {
        refused: (app, reason, isEnforced) => observer.refused(apps.labelOf(app), reason, isEnforced),
        departed({ app, cause }, waitedMs) {
          forgetShares();
          observer.departed(apps.labelOf(app), cause, waitedMs);
        },
      },
    },
    config,
  );
  return {
    run: (request, send) => calls.run(request, send),
    expect: (kind) => calls.expect(kind),
    inFlight: () => calls.inFlight(),
    isCoolingOff: ({ resource, query }) =>
      "until" in circuits.passage({ resource, question: query, cause: "miss" }),
    retryAfterSeconds(resource) {
      const open = circuits.overview().filter(({ scope }) => scope === "origin" || scope === resource);
      return open.length === 0 ? undefined : retryAfterSeconds(Math.max(...open.map(({ forMs }) => forMs)));
    },
    queueLength: (priority) => calls.waiting(priority),
    shareOf: (app) => shares.get(app, () => current().sharesOf(app)),
    windows: () => current().windows,
    circuits: () => circuits.overview(),
    overview: () => overviewOf(limiter.state(), calls, circuits, now()),
    configure(next) {
      config = next;
      limiter.configure(next);
      circuits.configure(next);
      calls.configure(next);
      forgetShares();
    },
    onProbeWanted: (listener) => void (probeWanted = listener),
    tryCircuits: () => circuits.tryNow(),
    stop: (why) => calls.stop(why),
    close: limiter.close,
  };
}

function circuitsOf(options: BudgetOptions, config: BudgetConfig, probeWanted: () => void): Circuits {
  const { origin, observer, sharedCircuits: shared, clock } = options;
  return new Circuits(
    {
      ...options,
      shared,
      now: clock.monotonic,
      probeWanted,
      warn: observer.warn,
      onState(scope, circuit) {
        if (circuit === undefined) observer.backInOrder(outageName(origin, scope));
        else observer.outOfOrder(outageOf(origin, scope, circuit));
      },
    },
    config,
  );
}

function overviewOf(state: LimiterState, calls: Calls, circuits: Circuits, now: number): BudgetOverview {
  const queue = PRIORITIES.map((priority) => [priority, calls.waiting(priority)] as const);
  return {
    mode: state.mode,
    hasSlot: state.hasSlot,
    windows: windowsIn(state, now),
    queue: Object.fromEntries(queue),
    circuits: circuits.overview(),
  };
}

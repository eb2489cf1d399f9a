/** The budget of an origin: its limiter, its circuits and its calls. */
import type { Problem } from "../errors.ts";
import type { Resource, OriginName } from "../interface/resources.ts";
import { memoize } from "../process/memoize.ts";
import { type Cause, type Observer, PRIORITIES } from "../telemetry/events.ts";
import type { CallsConfig, CallsOptions } from "./admission.ts";
import type { Apps } from "./apps.ts";
import { Calls } from "./calls.ts";
import { Circuits, type SharedCircuits } from "./circuits/circuits.ts";
import { outageName, outageOf } from "./circuits/outages.ts";
import type { Limiter, LimiterConfig, LimiterState, WindowState } from "./limiter.ts";
import { sharesAt, type ShareOfWindow, type WindowOverview, windowsIn } from "./overview.ts";
import { retryAfterSeconds } from "./refusals.ts";

export interface BudgetConfig extends CallsConfig, LimiterConfig {
  readonly maxCoolOffMs: number;
}

export interface BudgetOptions extends Pick<CallsOptions, "limiter" | "clock" | "fraction" | "keyVersion"> {
  readonly origin: OriginName;
  readonly sharedCircuits: SharedCircuits;
  readonly apps: Apps;
  readonly observer: Pick<Observer, "warn" | "outOfOrder" | "backInOrder"> & {
    /** @param app a metric label */
    readonly refused: CallsOptions["observer"]["refused"];
    readonly departed: (app: string, cause: Cause, waitedMs: number) => void;
  };
}

/** The state of an origin's budget, for operators. */
interface BudgetOverview extends Pick<LimiterState, "mode" | "hasSlot"> {
  readonly windows: readonly WindowOverview[];
  /** Waiting calls, by priority. */
  readonly queue: Readonly<Record<string, number>>;
  readonly circuits: ReturnType<Circuits["overview"]>;
}

/** What callers see of the windows, read at an instant. */
interface View {
  readonly until: number;
  readonly windows: readonly WindowState[];
  readonly sharesOf: ReturnType<typeof sharesAt>;
}

/** Every response shows what is left. To save time, it is computed only this often, and after each call. */
const VIEW_MS = 500;

export class Budget {
  readonly circuits: Circuits;
  readonly calls: Calls;
  /**
   * Sends a probe. It is called when the credentials may be tried again and no caller asks a question that was answered
   * before, and when an operator tries the circuits.
   */
  probeWanted = (): void => undefined;
  readonly #limiter: Limiter;
  readonly #now: () => number;
  #perDay: LimiterConfig["perDay"];
  #view: View | undefined;

  constructor(options: BudgetOptions, config: BudgetConfig) {
    const { limiter, apps, clock, observer, origin, sharedCircuits: shared } = options;
    this.#limiter = limiter;
    this.#now = clock.monotonic;
    this.#perDay = config.perDay;
    this.circuits = new Circuits(
      {
        ...options,
        shared,
        now: clock.monotonic,
        probeWanted: () => this.probeWanted(),
        warn: observer.warn,
        onState(scope, circuit) {
          if (circuit === undefined) observer.backInOrder(outageName(origin, scope));
          else observer.outOfOrder(outageOf(origin, scope, circuit));
        },
      },
      config,
    );
    this.calls = new Calls(
      {
        ...options,
        circuits: this.circuits,
        apps: {
          isListed: apps.isListed,
          listed: apps.listed,
          weightOf: apps.weightOf,
          unlistedShare: apps.unlistedShare,
          perDayOf: (app) => this.#perDay.get(app) ?? null,
        },
        observer: {
          refused: (app, reason, isEnforced) => observer.refused(apps.labelOf(app), reason, isEnforced),
          departed: ({ app, cause }, waitedMs) => {
            this.#view = undefined;
            observer.departed(apps.labelOf(app), cause, waitedMs);
          },
        },
      },
      config,
    );
  }

  readonly run: Calls["run"] = (request, send) => this.calls.run(request, send);

  /** Whether a circuit stops a call for this question now. */
  isCoolingOff({ resource, query }: { readonly resource: Resource; readonly query: string }): boolean {
    return "until" in this.circuits.passage({ resource, question: query, cause: "miss" });
  }

  /** Seconds until a circuit allows the next call, if one is open. For the `Retry-After` of failures. */
  retryAfterSeconds(resource: Resource): number | undefined {
    const open = this.circuits.overview().filter(({ scope }) => scope === "origin" || scope === resource);
    return open.length === 0 ? undefined : retryAfterSeconds(Math.max(...open.map(({ forMs }) => forMs)));
  }

  /** What an app has left of its share of each window, and of its `perDay`. The same array for half a second. */
  shareOf(app: string): readonly ShareOfWindow[] {
    return this.#viewed().sharesOf(app);
  }

  /** At most half a second old. */
  windows(): readonly WindowState[] {
    return this.#viewed().windows;
  }

  overview(): BudgetOverview {
    const { mode, hasSlot, windows } = this.#limiter.state();
    return {
      mode,
      hasSlot,
      windows: windowsIn(windows, this.#now()),
      queue: Object.fromEntries(PRIORITIES.map((priority) => [priority, this.calls.waiting(priority)])),
      circuits: this.circuits.overview(),
    };
  }

  configure(config: BudgetConfig): void {
    this.#perDay = config.perDay;
    this.#limiter.configure(config);
    this.circuits.configure(config);
    this.calls.configure(config);
    this.#view = undefined;
  }

  /** Rejects all waiting calls and all new ones. Resolves when the calls in flight have ended. */
  stop(why: Problem): Promise<void> {
    return this.calls.stop(why);
  }

  /** Gives back what this process holds. Never rejects. */
  close(): Promise<void> {
    return this.#limiter.close();
  }

  #viewed(): View {
    if (this.#view !== undefined && this.#now() < this.#view.until) return this.#view;
    const situation = this.calls.situation();
    const { windows } = situation.state;
    this.#view = { until: this.#now() + VIEW_MS, windows, sharesOf: memoize(sharesAt(situation)) };
    return this.#view;
  }
}

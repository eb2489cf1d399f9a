/** The budget of an origin: its limiter, its circuits and its calls. */
import type { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import { memoize } from "../process/memoize.ts";
import { PRIORITIES } from "../telemetry/events.ts";
import type { CallsConfig, CallsOptions } from "./admission.ts";
import { Calls } from "./calls.ts";
import { Circuits, type CircuitsOptions } from "./circuits/circuits.ts";
import { Calendar } from "./fairness/calendar.ts";
import type { LimiterConfig, LimiterState, WindowState } from "./limiter.ts";
import { type ShareOfWindow, type WindowOverview, windowsIn } from "./overview.ts";
import { retryAfterSeconds } from "./refusals.ts";
import type { Throttled } from "./throttled.ts";

export interface BudgetConfig extends CallsConfig, LimiterConfig {
  readonly maxCoolOffMs: number;
}

export interface BudgetOptions extends Omit<CallsOptions, "circuits">, CircuitsOptions {
  readonly clock: CallsOptions["clock"];
  readonly observer: CallsOptions["observer"] & CircuitsOptions["observer"];
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
  readonly sharesOf: (app: string) => readonly ShareOfWindow[];
}

/** Every response shows what is left. To save time, it is computed only this often, and after each call. */
const VIEW_MS = 500;

export class Budget {
  readonly circuits: Circuits;
  readonly calls: Calls;
  readonly #limiter: CallsOptions["limiter"];
  readonly #now: () => number;
  #view: View | undefined;

  constructor(options: BudgetOptions, config: BudgetConfig) {
    this.#limiter = options.limiter;
    this.#now = options.clock.monotonic;
    this.circuits = new Circuits(options, config);
    this.calls = new Calls({ ...options, circuits: this.circuits }, config);
  }

  readonly run: Throttled = (request, send) =>
    this.calls.run(request, (ended, permit) => {
      this.#view = undefined;
      return send(ended, permit);
    });

  /** Whether a circuit stops a call for this question now. */
  isCoolingOff(question: { readonly resource: Resource; readonly query: string }): boolean {
    return this.circuits.stopOf({ ...question, cause: "miss" }) !== undefined;
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
    const calendar = new Calendar(this.calls.situation(), []);
    const { windows } = calendar.situation.state;
    const sharesOf = memoize((app) => calendar.sharesOf(app));
    this.#view = { until: this.#now() + VIEW_MS, windows, sharesOf };
    return this.#view;
  }
}

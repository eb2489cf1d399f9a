/** The budget of an origin: its limiter, its circuits and its calls. */
import type { Resource } from "../interface/resources.ts";
import { memoize } from "../process/memoize.ts";
import { OTHER_APP, PRIORITIES } from "../telemetry/events.ts";
import type { CallsConfig, CallsOptions } from "./admission.ts";
import { Calls } from "./calls.ts";
import { type CircuitRules, Circuits, type CircuitsOptions } from "./circuits/circuits.ts";
import { sharesOf } from "./fairness/shares.ts";
import type { Limiter, LimiterConfig, WindowState } from "./limiter.ts";
import { type ShareOfWindow, windowOverview } from "./overview.ts";
import { retryAfterSeconds } from "./refusals.ts";
import type { Throttled } from "./throttled.ts";

export type BudgetConfig = CallsConfig & LimiterConfig & CircuitRules;
export type BudgetOptions = Omit<CallsOptions, "circuits"> & CircuitsOptions;

/** Every response shows what is left. To save time, it is computed only this often, and after each call. */
const VIEW_MS = 500;

export class Budget {
  readonly limiter: Limiter;
  readonly circuits: Circuits;
  readonly calls: Calls;
  readonly #options: BudgetOptions;
  /** What callers see of the windows, read at an instant. */
  #view: ReturnType<typeof viewOf> | undefined;

  constructor(options: BudgetOptions, config: BudgetConfig) {
    this.#options = options;
    this.limiter = options.limiter;
    this.circuits = new Circuits(options, config);
    this.calls = new Calls({ ...options, circuits: this.circuits }, config);
  }

  readonly run: Throttled = (request, send) =>
    this.calls.run(request, (ended, permit) => {
      this.#view = undefined;
      return send(ended, permit);
    });

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

  /** Waiting calls, by priority. */
  queue(): Readonly<Record<string, number>> {
    return Object.fromEntries(PRIORITIES.map((priority) => [priority, this.calls.waiting(priority)]));
  }

  /** The state for operators, with times in milliseconds. */
  // oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
  overview() {
    const { origin, clock } = this.#options;
    const { mode, hasSlot, windows } = this.limiter.state();
    const resource = origin === "images" ? "images" : "listings";
    const { forMs, why } = this.calls.admission.expect({ app: OTHER_APP, priority: "interactive", resource });
    return {
      mode,
      hasSlot,
      queue: this.queue(),
      circuits: this.circuits.overview(),
      windows: windows.map((window) => windowOverview(window, clock.monotonic())),
      /** How long the call of an unlisted app would wait now, and for what. */
      predictedWaitMs: Math.round(forMs),
      waitsFor: forMs > 0 ? why : null,
    };
  }

  configure(config: BudgetConfig): void {
    this.limiter.configure(config);
    this.circuits.rules = config;
    this.calls.configure(config);
    this.#view = undefined;
  }

  #viewed(): ReturnType<typeof viewOf> {
    const now = this.#options.clock.monotonic();
    if (this.#view === undefined || now >= this.#view.until) this.#view = viewOf(this.calls, now);
    return this.#view;
  }
}

// oxlint-disable-next-line typescript/explicit-function-return-type
function viewOf(calls: Calls, now: number) {
  const situation = calls.admission.situation();
  const { windows } = situation.state;
  return { until: now + VIEW_MS, windows, sharesOf: memoize((app) => sharesOf(app, situation)) };
}

/** The budget of an origin: its limiter, its circuits and its calls. */
import type { Resource } from "../interface/resources.ts";
import { memoize } from "../process/memoize.ts";
import { OTHER_APP, PRIORITIES } from "../telemetry/events.ts";
import type { BudgetConfig, BudgetOptions } from "./budget-options.ts";
import { Calls } from "./calls.ts";
import { Circuits } from "./circuits/circuits.ts";
import { type ShareOfWindow, sharesOf } from "./fairness/shares.ts";
import type { Limiter, WindowState } from "./limiter.ts";
import { retryAfterSeconds } from "./refusals.ts";
import type { Throttled } from "./call-facts.ts";

/** Every response shows what is left. To save time, it is computed only this often, and after each call. */
const VIEW_MS = 500;
/** An overview shows when each of these numbers of spent calls is free again. */
const COME_BACK = [1, 10, 100];

export class Budget {
  readonly limiter: Limiter;
  readonly circuits: Circuits;
  readonly calls: Calls;
  readonly #options: BudgetOptions;
  #config: BudgetConfig;
  /** What callers see of the windows, read at an instant. */
  #view: ReturnType<typeof viewOf> | undefined;

  constructor(options: BudgetOptions, config: BudgetConfig) {
    this.#options = options;
    this.#config = config;
    const part = { ...options, config: () => this.#config };
    this.limiter = options.limiter;
    this.circuits = new Circuits(part);
    this.calls = new Calls({ ...part, circuits: this.circuits });
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

  /** What an app has left of its share of each window, and of its `perDay`. The same array until the view is computed again. */
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
    const { forMs, why } = this.calls.admission.expect(OTHER_APP, resource);
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
    this.#config = config;
    this.limiter.configure(config);
    this.calls.configure();
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

/**
 * A window for operators. While Redis is away, `spent` of a window's state counts only the calls of this replica's own purse.
 * `byApp` also has the calls before that, so the larger number is shown. But `byApp` counts a call a little longer than its
 * window. So its sum counts only up to the limit.
 */
// oxlint-disable-next-line typescript/explicit-function-return-type
function windowOverview({ name, limit, windowMs, remaining, freeAt, ...state }: WindowState, now: number) {
  const byApp = [...state.byApp].filter(([, sent]) => sent > 0).toSorted(([, a], [, b]) => b - a);
  const named = byApp.reduce((sum, [, sent]) => sum + sent, 0);
  const spent = Math.max(state.spent, Math.min(named, limit));
  return {
    name,
    limit,
    windowMs,
    spent,
    remaining,
    /** After `inMs`, this many spent calls are free again. Empty if none is spent. */
    comesBack: COME_BACK.flatMap((calls) => {
      const at = freeAt[calls - 1];
      return at === undefined ? [] : [{ calls, inMs: Math.max(0, at - now) }];
    }),
    /**
     * Calls that count now, by app, the app with most calls first. It has no prototype, because an app may be called
     * `constructor`.
     */
    byApp: Object.assign<Record<string, number>, object>(Object.create(null), Object.fromEntries(byApp)),
    /** The calls that only other processes can make. */
    heldBack: Math.max(0, limit - spent - remaining),
  };
}

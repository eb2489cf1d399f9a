/**
 * The hard limits of a process without Redis. The process counts the calls in its ledger after a restart. No other process
 * writes to this ledger.
 */
import type { Clock } from "../../process/clock.ts";
import type { OriginName } from "../../interface/resources.ts";
import { LONGEST_ARRIVAL_MS, type OwnLedger } from "../../usage/ledger-line.ts";
import { limitsText, type RateWindow } from "../../usage/rate-window.ts";
import {
  type Acquired,
  DAY_MS,
  type Limiter,
  type LimiterConfig,
  type LimitReason,
  MOST_FREE_INSTANTS,
  type PermitRequest,
} from "../limiter.ts";
import { daysOf, keptMs, PurseInMemory, repeated } from "./purse-in-memory.ts";
import { type PurseWindow, ROUNDING_MS, sendByOf } from "./purse-sizes.ts";

export interface SingleProcessLimiterOptions {
  readonly origin: OriginName;
  readonly config: LimiterConfig;
  readonly ledger: Pick<OwnLedger, "recent" | "enter" | "complete" | "unrecorded">;
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly process: string;
}

/** Longer windows count what is recorded: to close them would stop the gateway for too long. */
const LONGEST_SHORT_WINDOW_MS = 3_600_000;

export class SingleProcessLimiter implements Limiter {
  readonly #options: SingleProcessLimiterOptions;
  readonly #purse = new PurseInMemory();
  #config: LimiterConfig;
  /** Calls that were not recorded had arrived by then. */
  #unrecordedUntil = Number.NEGATIVE_INFINITY;
  #calls = 0;
  #changed = (): void => undefined;

  constructor(options: SingleProcessLimiterOptions) {
    this.#options = options;
    this.#config = options.config;
    this.#recall();
  }

  /** Counts the calls of the processes before this one. */
  #recall(): void {
    const { clock, ledger, origin } = this.#options;
    const { windows, arrivalMs } = this.#config;
    const now = clock.now();
    const monotonicMs = clock.monotonic() - now;
    const since = now - keptMs(windows) - LONGEST_ARRIVAL_MS;
    for (const { id, app, at, completion } of ledger.recent(origin, since)) {
      // A call without an end counts from its latest possible arrival. An instant in the future (the clock was set back)
      // counts as now.
      const arrivedAt = Math.min(completion?.arrivedAt ?? at + arrivalMs, now + arrivalMs);
      this.#purse.log.enter(id, arrivedAt + monotonicMs + ROUNDING_MS, app);
    }
    const until = ledger.unrecorded?.()?.until ?? Number.NEGATIVE_INFINITY;
    this.#unrecordedUntil = until + monotonicMs + arrivalMs;
  }

  /** Until then, short windows count as full, because calls were not recorded. A reload may add a longer one. */
  get #fullUntil(): number {
    const shortMs = this.#config.windows.filter(isShort).map(({ windowMs }) => windowMs);
    return this.#unrecordedUntil + Math.max(Number.NEGATIVE_INFINITY, ...shortMs);
  }

  readonly acquire: Limiter["acquire"] = async (request) => {
    const reason = request.ignoresLimits === true ? undefined : this.#refusal(request);
    return reason === undefined ? this.#permit(request) : { kind: "wait", reason };
  };

  /** @returns nothing if a permit is free */
  #refusal({ app }: PermitRequest): LimitReason | undefined {
    const { windows, perDay } = this.#config;
    const now = this.#options.clock.monotonic();
    if (this.#fullUntil > now || !this.#purse.hasPermit(windows.map(wholeOf), now)) return "budget";
    const limit = perDay.get(app);
    return limit !== undefined && this.#purse.log.spent(DAY_MS, now, app) >= limit ? "per-day" : undefined;
  }

  #permit(request: PermitRequest): Acquired {
    const { clock, ledger, origin, process } = this.#options;
    const { windows, arrivalMs } = this.#config;
    const { app, resource, cause, query } = request;
    const now = clock.monotonic();
    const id = `${process}.${origin}.${++this.#calls}`;
    // The ledger has the call before it departs. If the process is killed, the call counts as spent.
    ledger.enter({ id, origin, at: clock.now(), app, resource, cause, query, limits: limitsText(windows) });
    this.#purse.log.enter(id, now + arrivalMs, app);
    this.#purse.log.forget(now - keptMs(windows));
    return { kind: "permit", permit: { id, request, sendBy: sendByOf(now, arrivalMs) } };
  }

  readonly complete: Limiter["complete"] = ({ id, request }, { status, durationMs, arrivedAfterMs }) => {
    const { clock, ledger } = this.#options;
    // If the process is frozen between the two readings, the call counts longer here than in the ledger.
    const sinceArrivalMs = durationMs - arrivedAfterMs;
    const arrivedAt = clock.now() - sinceArrivalMs;
    this.#purse.log.enter(id, clock.monotonic() - sinceArrivalMs, request.app);
    ledger.complete(id, { status, durationMs, arrivedAt });
    this.#changed();
  };

  readonly release: Limiter["release"] = ({ id }) => {
    const { clock, ledger } = this.#options;
    this.#purse.log.drop(id);
    ledger.complete(id, { status: "unsent", durationMs: 0, arrivedAt: clock.now() });
    this.#changed();
  };

  readonly state: Limiter["state"] = () => {
    const { windows, perDay } = this.#config;
    const { log } = this.#purse;
    const now = this.#options.clock.monotonic();
    return {
      mode: "alone",
      windows: windows.map((window) => {
        const { windowMs, limit } = window;
        const facts = {
          ...window,
          spanMs: windowMs,
          byApp: log.byApp(windowMs, now),
          leaves: (app: string): number[] => log.freeInstants(windowMs, now, MOST_FREE_INSTANTS, app),
        };
        if (this.#fullUntil > now && isShort(window))
          return { ...facts, spent: limit, remaining: 0, freeAt: repeated(this.#fullUntil, limit) };
        const spent = log.spent(windowMs, now);
        // When more calls count than the limit permits, the first ones that leave the window free nothing.
        const over = Math.max(0, spent - limit);
        const freeAt = log.freeInstants(windowMs, now, over + MOST_FREE_INSTANTS).slice(over);
        return { ...facts, spent, remaining: Math.max(0, limit - spent), freeAt };
      }),
      today: daysOf(log, perDay, now),
      newsElsewhere: { at: 0, news: [] },
    };
  };

  readonly announce = (): void => undefined;

  readonly onChange: Limiter["onChange"] = (listener) => {
    this.#changed = listener;
  };

  readonly configure: Limiter["configure"] = (next) => {
    this.#config = next;
    this.#changed();
  };

  readonly close = async (): Promise<void> => undefined;
}

const isShort = ({ windowMs }: RateWindow): boolean => windowMs <= LONGEST_SHORT_WINDOW_MS;

/** A window of which the whole limit is in one purse. */
const wholeOf = (window: RateWindow): PurseWindow => ({ ...window, own: window.limit });

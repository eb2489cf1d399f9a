/**
 * The hard limits of a process without Redis. The process counts the calls in its ledger after a restart. No other process
 * writes to this ledger.
 */
import type { Clock } from "../../process/clock.ts";
import type { OriginName } from "../../interface/resources.ts";
import { LONGEST_ARRIVAL_MS, type OwnLedger } from "../../usage/ledger-line.ts";
import { limitsText, type RateWindow } from "../../usage/rate-window.ts";
import { type Acquired, type Limiter, type LimiterConfig, type PermitRequest } from "../limiter.ts";
import { ROUNDING_MS, sendByOf } from "./purse-sizes.ts";
import { keptMs, WindowLog } from "./window-log.ts";

export interface SingleProcessLimiterOptions {
  readonly origin: OriginName;
  readonly config: LimiterConfig;
  readonly ledger: Pick<OwnLedger, "recent" | "enter" | "complete" | "unrecorded">;
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly process: string;
}

const LONGEST_SHORT_WINDOW_MS = 3_600_000;

export class SingleProcessLimiter implements Limiter {
  readonly #options: SingleProcessLimiterOptions;
  readonly #log = new WindowLog();
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
      this.#log.enter(id, arrivedAt + monotonicMs + ROUNDING_MS, app);
    }
    const until = ledger.unrecorded?.()?.until ?? Number.NEGATIVE_INFINITY;
    this.#unrecordedUntil = until + monotonicMs + arrivalMs;
  }

  /**
   * Whether a short window counts as full, because calls in it were not recorded. Longer windows count what is recorded: to close
   * them would stop the gateway for too long.
   */
  #isFull({ windowMs }: RateWindow, now: number): boolean {
    return windowMs <= LONGEST_SHORT_WINDOW_MS && now < this.#unrecordedUntil + windowMs;
  }

  readonly acquire: Limiter["acquire"] = async (request) => {
    const now = this.#options.clock.monotonic();
    const isSpent = (window: RateWindow): boolean =>
      this.#isFull(window, now) || this.#log.spent(window.windowMs, now) >= window.limit;
    const isRefused = request.ignoresLimits !== true && this.#config.windows.some(isSpent);
    return isRefused ? { kind: "wait", reason: "budget" } : this.#permit(request);
  };

  #permit(request: PermitRequest): Acquired {
    const { clock, ledger, origin, process } = this.#options;
    const { windows, arrivalMs } = this.#config;
    const { app, resource, cause, query } = request;
    const now = clock.monotonic();
    const id = `${process}.${origin}.${++this.#calls}`;
    // The ledger has the call before it departs. If the process is killed, the call counts as spent.
    ledger.enter({ id, origin, at: clock.now(), app, resource, cause, query, limits: limitsText(windows) });
    this.#log.enter(id, now + arrivalMs, app);
    this.#log.forget(now - keptMs(windows));
    return { kind: "permit", permit: { id, request, sendBy: sendByOf(now, arrivalMs) } };
  }

  readonly complete: Limiter["complete"] = ({ id, request }, { status, durationMs, arrivedAfterMs }) => {
    const { clock, ledger } = this.#options;
    // If the process is frozen between the two readings, the call counts longer here than in the ledger.
    const sinceArrivalMs = durationMs - arrivedAfterMs;
    const arrivedAt = clock.now() - sinceArrivalMs;
    this.#log.enter(id, clock.monotonic() - sinceArrivalMs, request.app);
    ledger.complete(id, { status, durationMs, arrivedAt });
    this.#changed();
  };

  readonly release: Limiter["release"] = ({ id }) => {
    const { clock, ledger } = this.#options;
    this.#log.drop(id);
    ledger.complete(id, { status: "unsent", durationMs: 0, arrivedAt: clock.now() });
    this.#changed();
  };

  readonly state: Limiter["state"] = () => {
    const { windows, perDay } = this.#config;
    const now = this.#options.clock.monotonic();
    return {
      mode: "alone",
      windows: windows.map((window) => {
        const { windowMs, limit } = window;
        const facts = this.#log.facts(windowMs, now);
        const isFull = this.#isFull(window, now);
        const spent = isFull ? limit : this.#log.spent(windowMs, now);
        const freeAt = isFull ? [this.#unrecordedUntil + windowMs] : facts.freeAt;
        return { ...window, ...facts, spent, remaining: Math.max(0, limit - spent), freeAt };
      }),
      today: this.#log.days(perDay, now),
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

/**
 * The hard limits of a process without Redis. The process counts the calls in its ledger after a restart. No other process
 * writes to this ledger.
 */
import type { Clock } from "../process/clock.ts";
import type { OriginName } from "../types.ts";
import { LONGEST_ARRIVAL_MS, type OwnLedger } from "../usage/ledger.ts";
import { limitsText } from "../usage/rate-window.ts";
import { sendByOf } from "./escrow.ts";
import {
  type Acquired,
  DAY_MS,
  type Limiter,
  type LimiterConfig,
  type LimiterState,
  type LimitReason,
  MOST_FREE_INSTANTS,
  type Permit,
  type PermitRequest,
} from "./limiter.ts";
import { createSlidingWindowLog, type SlidingWindowLog } from "./sliding-window.ts";

export interface LocalLimiterOptions {
  readonly origin: OriginName;
  readonly config: LimiterConfig;
  readonly ledger: Pick<OwnLedger, "recent" | "enter" | "complete" | "unrecorded">;
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly process: string;
}

/** Clocks are cut to whole milliseconds. */
const ROUNDING_MS = 1;
/** Longer windows count what is recorded: to close them would stop the gateway for too long. */
const LONGEST_SHORT_WINDOW_MS = 3_600_000;

export function createLocalLimiter({ origin, config, ledger, clock, process }: LocalLimiterOptions): Limiter {
  let current = config;
  let calls = 0;
  let changed = (): void => undefined;
  const keptMs = (): number => Math.max(DAY_MS, ...current.windows.map(({ windowMs }) => windowMs));
  const log = fill();
  const fullUntil = afterUnrecorded({ ledger, clock, config });

  function fill(): SlidingWindowLog {
    const filled = createSlidingWindowLog();
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    const since = now - keptMs() - LONGEST_ARRIVAL_MS;
    for (const { id, app, at, completion } of ledger.recent(origin, since)) {
      // A call without an end counts from its latest possible arrival. An instant in the future (the clock was set back)
      // counts as now.
      const latest = completion?.arrivedAt ?? at + current.arrivalMs;
      const arrived = Math.min(latest, now + current.arrivalMs);
      filled.enter(id, app, arrived - now + monotonic + ROUNDING_MS);
    }
    return filled;
  }

  function permit(request: PermitRequest, now: number): Permit {
    const { app, resource, cause, query } = request;
    const id = `${process}.${origin}.${++calls}`;
    const entry = { id, origin, at: clock.now(), app, resource, cause, query };
    // The ledger has the call before it departs. If the process is killed, the call counts as spent.
    ledger.enter({ ...entry, limits: limitsText(current.windows) });
    log.enter(id, app, now + current.arrivalMs);
    log.forget(now - keptMs());
    return { id, request, sendBy: sendByOf(now, current.arrivalMs) };
  }

  return {
    async acquire(request) {
      const now = clock.monotonic();
      const refusal = refuse(log, current, request, now, fullUntil);
      return refusal ?? { kind: "permit", permit: permit(request, now) };
    },
    acquireAnyway: async (request) => permit(request, clock.monotonic()),
    complete({ id, request }, { status, durationMs, arrivedAfterMs }) {
      // If the process is frozen between the two readings, the call counts longer here than in the ledger.
      const sinceArrivalMs = durationMs - arrivedAfterMs;
      const arrivedAt = clock.now() - sinceArrivalMs;
      log.enter(id, request.app, clock.monotonic() - sinceArrivalMs);
      ledger.complete(id, { status, durationMs, arrivedAt });
      changed();
    },
    release({ id }) {
      log.drop(id);
      ledger.complete(id, { status: "unsent", durationMs: 0, arrivedAt: clock.now() });
      changed();
    },
    state: () => stateOf(log, current, clock.monotonic(), fullUntil),
    announce: () => undefined,
    onChange(listener) {
      changed = listener;
    },
    configure(next) {
      current = next;
      changed();
    },
    close: async () => undefined,
  };
}

/** After a time in which calls were not recorded, short windows count as full until those calls have left them. */
function afterUnrecorded({
  ledger,
  clock,
  config,
}: Pick<LocalLimiterOptions, "ledger" | "clock" | "config">): (windowMs: number) => number {
  const until = (ledger.unrecorded?.()?.until ?? Number.NEGATIVE_INFINITY) - clock.now() + clock.monotonic();
  return (windowMs) =>
    windowMs > LONGEST_SHORT_WINDOW_MS ? Number.NEGATIVE_INFINITY : until + config.arrivalMs + windowMs;
}

type Wait = Extract<Acquired, { kind: "wait" }>;

/** @returns nothing where a permit is free */
function refuse(
  log: SlidingWindowLog,
  { windows, perDay }: LimiterConfig,
  { app, leave }: PermitRequest,
  now: number,
  fullUntil: (windowMs: number) => number,
): Wait | undefined {
  let wait: Wait | undefined;
  function until(at: number, reason: LimitReason): void {
    wait = { kind: "wait", until: Math.max(at, wait?.until ?? 0), reason: wait?.reason ?? reason };
  }
  for (const [index, { limit, windowMs }] of windows.entries()) {
    if (now < fullUntil(windowMs)) until(fullUntil(windowMs), "budget");
    const free = limit - log.spent(windowMs, now);
    const missing = 1 + (leave[index] ?? 0) - free;
    // Without an instant, more is to be left than the limit allows. Only new limits help.
    if (missing > 0)
      until(
        log.freeAt(windowMs, now, { count: missing }) ?? now + windowMs,
        free < 1 ? "budget" : "reserved",
      );
  }
  const missing = log.spent(DAY_MS, now, app) + 1 - (perDay.get(app) ?? Number.POSITIVE_INFINITY);
  if (missing > 0) until(log.freeAt(DAY_MS, now, { count: missing, app }) ?? now + DAY_MS, "per-day");
  return wait;
}

function stateOf(
  log: SlidingWindowLog,
  { windows, perDay }: LimiterConfig,
  now: number,
  fullUntil: (windowMs: number) => number,
): LimiterState {
  return {
    mode: "alone",
    windows: windows.map((window) => {
      const { limit, windowMs } = window;
      const isFull = now < fullUntil(windowMs);
      const spent = isFull ? limit : log.spent(windowMs, now);
      return {
        ...window,
        spent,
        reserved: 0,
        remaining: Math.max(0, limit - spent),
        freeAt: isFull
          ? Array.from({ length: Math.min(limit, MOST_FREE_INSTANTS) }, () => fullUntil(windowMs))
          : log.freeInstants(windowMs, now, MOST_FREE_INSTANTS),
        byApp: log.byApp(windowMs, now),
      };
    }),
    today: new Map(
      [...perDay].map(([app, limit]) => {
        const spent = log.spent(DAY_MS, now, app);
        const count = Math.max(1, spent + 1 - limit);
        return [app, { spent, nextFreeAt: log.freeAt(DAY_MS, now, { count, app }) ?? now }];
      }),
    ),
    waitingElsewhere: [],
  };
}

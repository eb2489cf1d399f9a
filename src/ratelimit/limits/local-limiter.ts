/**
 * The hard limits of a process without Redis. The process counts the calls in its ledger after a restart. No other process
 * writes to this ledger.
 */
import type { Clock } from "../../process/clock.ts";
import type { OriginName } from "../../interface/resources.ts";
import { LONGEST_ARRIVAL_MS, type OwnLedger } from "../../usage/ledger.ts";
import { limitsText } from "../../usage/rate-window.ts";
import type { Limiter, LimiterConfig, LimiterState, Permit, PermitRequest } from "../limiter.ts";
import {
  createOwnPurse,
  dayOf,
  freeInstants,
  keptMs,
  laterOf,
  type OwnPurse,
  spentIn,
  type Wait,
  waitFor,
  windowState,
} from "./own-purse.ts";
import { sendByOf } from "./purse-sizes.ts";

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
  const purse = createOwnPurse(afterUnrecorded({ ledger, clock, config }));
  const { log } = purse;
  fill();

  function fill(): void {
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    const since = now - keptMs(current.windows) - LONGEST_ARRIVAL_MS;
    for (const { id, app, at, completion } of ledger.recent(origin, since)) {
      // A call without an end counts from its latest possible arrival. An instant in the future (the clock was set back)
      // counts as now.
      const latest = completion?.arrivedAt ?? at + current.arrivalMs;
      const arrived = Math.min(latest, now + current.arrivalMs);
      log.enter(id, app, arrived - now + monotonic + ROUNDING_MS);
    }
  }

  function permit(request: PermitRequest, now: number): Permit {
    const { app, resource, cause, query } = request;
    const id = `${process}.${origin}.${++calls}`;
    const entry = { id, origin, at: clock.now(), app, resource, cause, query };
    // The ledger has the call before it departs. If the process is killed, the call counts as spent.
    ledger.enter({ ...entry, limits: limitsText(current.windows) });
    log.enter(id, app, now + current.arrivalMs);
    log.forget(now - keptMs(current.windows));
    return { id, request, sendBy: sendByOf(now, current.arrivalMs) };
  }

  return {
    async acquire(request) {
      const now = clock.monotonic();
      const refusal = refuse(purse, current, request, now);
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
    state: () => stateOf(purse, current, clock.monotonic()),
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
}: Pick<LocalLimiterOptions, "ledger" | "clock" | "config">): OwnPurse["debts"] {
  const until = ledger.unrecorded?.()?.until;
  if (until === undefined) return [];
  const latest = until - clock.now() + clock.monotonic() + config.arrivalMs;
  return config.windows
    .filter(({ windowMs }) => windowMs <= LONGEST_SHORT_WINDOW_MS)
    .map(({ windowMs: ms, limit }) => ({ ms, count: limit, till: latest + ms }));
}

/** @returns nothing where a permit is free */
function refuse(
  purse: OwnPurse,
  { windows, perDay }: LimiterConfig,
  { app, leave }: PermitRequest,
  now: number,
): Wait | undefined {
  const sizes = windows.map(({ windowMs: ms, limit: size }, i) => ({ ms, size, leave: leave[i] ?? 0 }));
  const wait = waitFor(purse, sizes, now);
  const day = perDay.get(app);
  if (day === undefined) return wait;
  const { spent, nextFreeAt } = dayOf(purse.log, app, day, now);
  return spent >= day ? laterOf(wait, nextFreeAt, "per-day") : wait;
}

function stateOf(purse: OwnPurse, { windows, perDay }: LimiterConfig, now: number): LimiterState {
  return {
    mode: "alone",
    windows: windows.map((window) => {
      const { limit, windowMs } = window;
      const spent = spentIn(purse, windowMs, now);
      const freeAt = freeInstants(purse, windowMs, limit, now);
      const byApp = purse.log.byApp(windowMs, now);
      return windowState(window, { spent, remaining: limit - spent, freeAt, byApp });
    }),
    today: new Map([...perDay].map(([app, limit]) => [app, dayOf(purse.log, app, limit, now)])),
    newsElsewhere: [],
  };
}

/**
 * When the gateway can serve, and how it stops.
 *
 * | step                                           | until                                        |
 * |------------------------------------------------|----------------------------------------------|
 * | /readyz fails; every response says goodbye     | at once                                      |
 * | requests are still taken                       | `server.stopDelay`, where there are balancers |
 * | no new connections; what is in flight finishes | it has, or `server.drainTimeout`             |
 * | who still waits is refused, then cut           | half a second                                |
 * | places and claims given back, ledger written   |                                              |
 * | the admin port closes                          |                                              |
 */
import type { Server } from "node:http";
import { setImmediate } from "node:timers/promises";

import type { LoadedEntry } from "./cache/load.ts";
import type { Flights } from "./singleflight/flight.ts";
import type { Budgets } from "./draw-budgets.ts";
import type { AdminOptions } from "./admin/server.ts";
import type { UnderWay } from "./http/in-flight.ts";
import { Problem } from "./errors.ts";
import { type FlightResult, ORIGINS } from "./types.ts";
import { pause, type Clock } from "./process/clock.ts";
import type { Config } from "./config/config.ts";
import { listen, type Listening } from "./process/listen.ts";

export interface LifeParts {
  readonly clock: Clock;
  readonly callers: Server;
  readonly admin: Server;
  readonly budgets: Budgets;
  readonly flights: Flights<FlightResult<LoadedEntry> | undefined>;
  readonly underWay: UnderWay;
  /** Writes down what is not yet, and closes the store: the last thing that is done. */
  readonly closeStore: () => Promise<void>;
}

/** Where the servers listen, and how long stopping may take. */
type LifeTerms = Pick<Config, "server" | "admin">;

export interface StopOptions {
  /** Requests are still taken for `server.stopDelay`: there may be balancers that have yet to notice. */
  readonly isPatient?: boolean;
}

export interface Life {
  readonly start: (terms: LifeTerms) => Promise<{ readonly callers: Listening; readonly admin: Listening }>;
  readonly stop: (terms: LifeTerms, options?: StopOptions) => Promise<void>;
  readonly readiness: AdminOptions["readiness"];
}

/** For what comes after the drain: last words, places given back, the ledger. */
const REST_MS = 5_000;

/** @returns the longest that stopping takes, in milliseconds; what takes longer hangs */
export function longestStopMs({ server }: LifeTerms): number {
  return server.stopDelayMs + server.drainTimeoutMs + REST_MS;
}

/** @param parts made when they are first needed: the admin server asks for the readiness before it is made */
export function drawLife(parts: () => LifeParts): Life {
  const started: { callers?: Listening; admin?: Listening } = {};
  let isStopping = false;
  let hasBegun = false;

  return {
    async start({ server, admin }) {
      const { callers: callersServer, admin: adminServer } = parts();
      // The operators' first: whoever watches the start sees that it is not ready yet.
      const adminAt = await listen(adminServer, admin.port, admin.host);
      started.admin = adminAt;
      const callersAt = await listen(callersServer, server.port, server.host);
      started.callers = callersAt;
      return { callers: callersAt, admin: adminAt };
    },
    async stop({ server }, { isPatient = false } = {}) {
      const { clock, underWay, budgets, closeStore } = parts();
      isStopping = true;
      underWay.sayGoodbye();
      if (isPatient) await pause(clock, server.stopDelayMs);
      await drain(started.callers, server.drainTimeoutMs, parts());
      // Before the store: what was sent is told there.
      await Promise.all(ORIGINS.map((origin) => budgets[origin].allowance.close()));
      await closeStore();
      await started.admin?.close(clock, 0);
    },
    readiness() {
      if (isStopping) return "stopping";
      hasBegun ||= started.callers !== undefined && !isJoining(parts().budgets);
      return hasBegun ? "ready" : "starting";
    },
  };
}

/**
 * Whether a budget is not yet known: nothing could be sent. Asked at the start only: later on a replica that
 * joins again, after a restart of Redis, goes on answering from what it holds.
 */
function isJoining(budgets: Budgets): boolean {
  return ORIGINS.some((origin) => budgets[origin].allowance.overview().mode === "joining");
}

/** Lets what is in flight finish: for callers, and, where nobody waits any more, for the cache and the ledger. */
async function drain(
  callers: Listening | undefined,
  drainMs: number,
  { clock, underWay, budgets, flights }: LifeParts,
): Promise<void> {
  const closeQueues = (): Problem => {
    const problem = new Problem("shutting-down", { retryAfterSeconds: 1, refusedHere: true });
    for (const origin of ORIGINS) budgets[origin].throttle.close(problem);
    return problem;
  };
  const endsAt = clock.steady() + drainMs;
  await callers?.close(clock, drainMs, () => {
    // Those in the queue first: they may still be given a stale answer.
    const problem = closeQueues();
    void setImmediate().then(() => underWay.refuseAll(problem));
  });
  const enough = new AbortController();
  await Promise.race([flights.landed(), pause(clock, endsAt - clock.steady(), enough.signal)]);
  enough.abort();
  // From here on nothing may depart: it could not be told any more.
  closeQueues();
}

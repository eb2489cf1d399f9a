/**
 * Starts and stops the servers, and reports readiness.
 *
 * | Step of a stop                                             | Lasts                                          |
 * |------------------------------------------------------------|------------------------------------------------|
 * | `/readyz` fails; every response carries `Connection: close` | from the start of the stop                     |
 * | requests are still accepted                                | `server.stopDelay`, only after SIGTERM         |
 * | no new connections; requests in flight finish              | at most `server.drainTimeout`                  |
 * | remaining requests are refused, connections are closed     | half a second                                  |
 * | permits and claims are released, the ledger is written     |                                                |
 * | the admin port closes                                      |                                                |
 */
import { setImmediate } from "node:timers/promises";

import type { Flights } from "./singleflight/callers-flights.ts";
import type { Budgets } from "./ratelimit/budgets.ts";
import type { CallersApp } from "./http/callers-routes.ts";
import type { Context } from "./context.ts";
import { Problem } from "./errors.ts";
import { ORIGINS } from "./interface/resources.ts";
import { pause } from "./process/clock.ts";
import { type HttpServer, listen, type Listening } from "./process/listen.ts";

export interface LifecycleOptions extends Pick<Context, "clock" | "config" | "settings"> {
  readonly budgets: Budgets;
  readonly flights: Pick<Flights<unknown>, "settled">;
  readonly callersApp: Pick<CallersApp, "drain" | "refuseAll">;
  /** Writes all pending data and closes the stores, before the admin port closes. */
  readonly closeStore: () => Promise<void>;
}

export type Lifecycle = ReturnType<typeof createLifecycle>;

const READY = { isReady: true, says: "ready" };
const NOT_JOINED =
  "starting: this replica has not joined the shared budget, which is in Redis. The log says why. " +
  "To serve cached answers meanwhile, set server.readyWithout to redis.";
/** For the steps after the drain: refusals, permits, the ledger. */
const AFTER_DRAIN_MS = 5_000;

/** One for each port. */
type OfBoth<T> = Readonly<Record<"callers" | "admin", T>>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createLifecycle({ clock, config, settings, ...parts }: LifecycleOptions) {
  const { budgets, callersApp, flights, closeStore } = parts;
  let callers: Listening | undefined;
  let admin: Listening | undefined;
  let isStopping = false;

  /** Whether this replica has never joined a budget, so that it cannot send calls. A replica that has joined stays ready. */
  const isJoining = (): boolean =>
    ORIGINS.some((origin) => budgets[origin].limiter.state().mode === "joining");

  /** Waits for requests in flight, and for upstream calls without a caller, because the cache and the ledger need them. */
  async function drain(drainMs: number): Promise<void> {
    const endsAt = clock.monotonic() + drainMs;
    await callers?.close(clock, drainMs, () => {
      // The queue is closed first, because a request that is refused there may still get a stale answer.
      const problem = closeQueues(budgets);
      void setImmediate().then(() => callersApp.refuseAll(problem));
    });
    const enough = new AbortController();
    await Promise.race([flights.settled(), pause(clock, endsAt - clock.monotonic(), enough.signal)]);
    enough.abort();
    // No upstream call may start from now on, because its end could not be recorded.
    closeQueues(budgets);
  }

  return {
    /** @param servers not yet listening */
    async start(servers: OfBoth<HttpServer>): Promise<OfBoth<Listening>> {
      // The admin port opens first, so that a probe sees "starting" and not a refused connection.
      admin = await listen(servers.admin, config.admin.port, config.admin.host);
      callers = await listen(servers.callers, config.server.port, config.server.host);
      return { callers, admin };
    },
    /** @param withDelay whether to accept requests for `server.stopDelay`, until load balancers have noticed the stop */
    async stop(withDelay = false): Promise<void> {
      const { stopDelayMs, drainTimeoutMs } = settings.current().server;
      isStopping = true;
      callersApp.drain();
      if (withDelay) await pause(clock, stopDelayMs);
      await drain(drainTimeoutMs);
      // The budgets write sent calls to the store, so they close before it.
      await Promise.all(ORIGINS.map((origin) => budgets[origin].limiter.close()));
      await closeStore();
      await admin?.close(clock, 0);
    },
    /** @returns the longest time for an orderly stop, in milliseconds. A process that takes longer hangs. */
    longestStopMs: (): number => {
      const { stopDelayMs, drainTimeoutMs } = settings.current().server;
      return stopDelayMs + drainTimeoutMs + AFTER_DRAIN_MS;
    },
    readiness: (): { readonly isReady: boolean; readonly says: string } => {
      if (isStopping) return { isReady: false, says: "stopping" };
      if (callers === undefined) return { isReady: false, says: "starting" };
      const isReady = config.server.readyWithout === "redis" || !isJoining();
      return isReady ? READY : { isReady, says: NOT_JOINED };
    },
  };
}

/** Refuses all waiting calls. @returns the problem that their callers get */
function closeQueues(budgets: Budgets): Problem {
  const problem = new Problem("shutting-down", { retryAfterSeconds: 1, refusedHere: true });
  for (const origin of ORIGINS) void budgets[origin].calls.stop(problem);
  return problem;
}

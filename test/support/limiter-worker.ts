/**
 * A replica that has only a limiter: it shares limits through Redis, and calls an upstream as often as it may. It runs in the
 * process of the test, or, started by `limiter-stage.ts`, in one of its own that can be killed and frozen.
 */
import { Agent, request } from "node:http";

import { systemClock } from "../../src/process/clock.ts";
import type { Permit } from "../../src/ratelimit/limiter.ts";
import { shareLimits } from "./shared-limiter.ts";

export interface WorkerSettings {
  readonly redisPort: number;
  readonly upstreamPort: number;
  readonly limit: number;
  readonly windowMs: number;
  readonly replicas: number;
  /** Calls at once; 0: it only holds its slot. */
  readonly dispatchers: number;
}

export interface Worker {
  /** Ends it as the death of a process does: it sends nothing any more, and its connection to Redis is closed. */
  readonly kill: () => void;
  /** Ends it in order. */
  readonly close: () => Promise<void>;
}

/** @param say gets each new mode of the limiter, and what it reports */
export function startWorker(settings: WorkerSettings, say: (text: string) => void): Worker {
  const { redisPort, limit, windowMs, dispatchers } = settings;
  const clock = systemClock;
  const { limiter, calls, replicas } = shareLimits({
    redisPort,
    windows: [{ name: "w", limit, windowMs }],
    replicas: settings.replicas,
    degradedForMs: Math.max(8_000, windowMs),
    onReport: say,
  });
  const agent = new Agent({ keepAlive: true });
  const ending = new AbortController();
  let mode: string | undefined;
  let changed = Promise.withResolvers<void>();
  const wake = (): void => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  limiter.onChange(() => {
    wake();
    const now = limiter.state().mode;
    if (now !== mode) say(now);
    mode = now;
  });
  // As often as an operator may read them. A read has no effect.
  const reading = setInterval(() => void replicas().catch(() => undefined), 100);
  if (dispatchers > 0) limiter.announce([["interactive", "app", dispatchers]]);

  async function dispatch(): Promise<void> {
    while (!ending.signal.aborted) {
      const acquired = await limiter.acquire({
        ...({
          app: "app",
          priority: "interactive",
          resource: "listings",
          cause: "miss",
          query: "q",
        } as const),
        leave: [],
      });
      if (ending.signal.aborted) return;
      if (acquired.kind === "permit") await send(acquired.permit);
      else {
        const waited = Promise.withResolvers<void>();
        const cancel = clock.after(acquired.until - clock.monotonic(), waited.resolve);
        await Promise.race([waited.promise, changed.promise]);
        cancel();
      }
    }
  }

  function send(permit: Permit): Promise<void> {
    return new Promise((resolve) => {
      const { upstreamPort } = settings;
      const call = request({ port: upstreamPort, host: "127.0.0.1", agent, path: `/${permit.id}` });
      const startedAt = clock.monotonic();
      call.on("socket", (socket) => {
        const write = (): void => {
          // The clock is read in the tick that writes to the connected socket.
          if (clock.monotonic() <= (permit.sendBy ?? 0)) return void call.end();
          call.destroy();
          limiter.release(permit);
          resolve();
        };
        if (socket.connecting) socket.once("connect", write);
        else write();
      });
      call.on("response", (response) => {
        const ms = clock.monotonic() - startedAt;
        limiter.complete(permit, { status: 200, durationMs: ms, arrivedAfterMs: ms });
        response.resume();
        response.on("end", resolve);
      });
      call.on("error", () => resolve());
    });
  }

  for (let index = 0; index < dispatchers; index++) void dispatch();
  const kill = (): void => {
    ending.abort();
    wake();
    clearInterval(reading);
    agent.destroy();
    calls.close();
  };
  return {
    kill,
    async close() {
      ending.abort();
      await limiter.close();
      kill();
    },
  };
}

if (import.meta.main) {
  const worker = startWorker(
    JSON.parse(process.argv[2] ?? ""),
    (text) => void process.stdout.write(`${text}\n`),
  );
  process.on("SIGTERM", () => void worker.close().then(() => process.exit(0)));
}

/**
 * A process that shares limits through Redis and calls an upstream as often as it may. Started by
 * `test/faults/ratelimit-*.test.ts`; its settings come as JSON.
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

const settings: WorkerSettings = JSON.parse(process.argv[2] ?? "");
const { limit, windowMs, dispatchers } = settings;
const clock = systemClock;
const say = (text: string): void => void process.stdout.write(`${text}\n`);

const { limiter, replicas } = shareLimits({
  redisPort: settings.redisPort,
  windows: [{ name: "w", limit, windowMs }],
  replicas: settings.replicas,
  degradedForMs: Math.max(20_000, windowMs),
  onReport: say,
});

const agent = new Agent({ keepAlive: true });
let changed = Promise.withResolvers<void>();
limiter.onChange(() => {
  changed.resolve();
  changed = Promise.withResolvers();
  say(limiter.state().mode);
});
// As often as an operator may read them. A read has no effect.
setInterval(() => void replicas().catch(() => undefined), 100);
if (dispatchers > 0) limiter.announce([["interactive", "app", dispatchers]]);

async function dispatch(): Promise<never> {
  for (;;) {
    const acquired = await limiter.acquire({
      ...({ app: "app", priority: "interactive", resource: "listings", cause: "miss", query: "q" } as const),
      leave: [],
    });
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
    const call = request({ port: settings.upstreamPort, host: "127.0.0.1", agent, path: `/${permit.id}` });
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

process.on("SIGTERM", () => {
  void limiter.close().then(() => process.exit(0));
});
for (let index = 0; index < dispatchers; index++) void dispatch();

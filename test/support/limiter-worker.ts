/**
 * A process that shares limits through Redis and calls an upstream as often as it may. Started by
 * `test/faults/ratelimit-*.test.ts`; its settings come as JSON.
 */
import { Agent, request } from "node:http";

import { systemClock } from "../../src/process/clock.ts";
import { systemRandom } from "../../src/process/random.ts";
import type { Permit } from "../../src/ratelimit/limiter.ts";
import { createRedisLimiter, LIMITER_SCRIPTS } from "../../src/ratelimit/redis-limiter.ts";
import { createSharedLimiter } from "../../src/ratelimit/shared-limiter.ts";
import { redisFactory } from "../../src/redis/connect.ts";
import { createRedisCalls } from "../../src/redis/commands.ts";
import { SCRIPTS } from "../../src/redis/scripts.ts";

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
const { limit, windowMs, replicas, dispatchers } = settings;
const clock = systemClock;
const say = (text: string): void => void process.stdout.write(`${text}\n`);

const calls = createRedisCalls({
  factory: redisFactory(
    { url: `redis://127.0.0.1:${settings.redisPort}`, mode: "single", nodes: [] },
    { ...SCRIPTS, ...LIMITER_SCRIPTS },
  ),
  clock,
  commandTimeoutMs: 250,
  probeIntervalMs: 200,
  observer: { info: (message) => say(message), warn: (message) => say(message) },
  onOperation: () => undefined,
  onBreaker: () => undefined,
  onOutage: () => undefined,
  onRecovery: () => limiter.check(),
});
const limiter = createSharedLimiter({
  origin: "api",
  config: { windows: [{ name: "w", limit, windowMs }], perDay: new Map(), arrivalMs: 1_000 },
  ask: createRedisLimiter(calls.run, "test:", "api"),
  clock,
  process: systemRandom.unique16(),
  replicas,
  degradedReserve: 0.05,
  degradedForMs: 20_000,
  leaseMs: 1_000,
  timeoutMs: 250,
  ledger: { retentionMs: 60_000, maxRecords: 10_000 },
  warn: (message) => say(message),
});

const agent = new Agent({ keepAlive: true });
let changed = Promise.withResolvers<void>();
limiter.onChange(() => {
  changed.resolve();
  changed = Promise.withResolvers();
  say(limiter.state().mode);
});
if (dispatchers > 0) limiter.announce([{ app: "app", priority: "interactive", count: dispatchers }]);

async function dispatch(): Promise<never> {
  for (;;) {
    const acquired = await limiter.acquire({
      ...({ app: "app", priority: "interactive", resource: "listings", cause: "miss", query: "q" } as const),
      leave: [],
    });
    if (acquired.kind === "permit") await send(acquired.permit);
    else {
      const waited = Promise.withResolvers<void>();
      const cancel = clock.after(acquired.until - clock.steady(), waited.resolve);
      await Promise.race([waited.promise, changed.promise]);
      cancel();
    }
  }
}

function send(permit: Permit): Promise<void> {
  return new Promise((resolve) => {
    const call = request({ port: settings.upstreamPort, host: "127.0.0.1", agent, path: `/${permit.id}` });
    const startedAt = clock.steady();
    call.on("socket", (socket) => {
      const write = (): void => {
        // The clock is read in the tick that writes to the connected socket.
        if (clock.steady() <= (permit.sendBy ?? 0)) return void call.end();
        call.destroy();
        limiter.release(permit);
        resolve();
      };
      if (socket.connecting) socket.once("connect", write);
      else write();
    });
    call.on("response", (response) => {
      const ms = clock.steady() - startedAt;
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

import { createGateway } from "../src/app.ts";
import { createLogger } from "../src/telemetry/log.ts";
import { systemClock as clock } from "../src/process/clock.ts";
import { createPrivateKeys } from "../src/config/private-key.ts";
import { systemRandom as random } from "../src/process/random.ts";
import { openSettings } from "../src/config/load.ts";
import { createSandbox, type Sandbox } from "../src/sandbox/sandbox.ts";
import { ask } from "../test/support/ask.ts";
import { type RedisServer, startRedis } from "../test/support/redis.ts";
import { readFileSync } from "node:fs";

import { printTable, ratio } from "./table.ts";

type Trouble = "upstream dead" | "upstream hangs" | "Redis dead" | "budget spent";

const CASES: readonly (readonly Trouble[])[] = [
  [],
  ["budget spent"],
  ["upstream dead"],
  ["upstream dead", "Redis dead"],
  ["upstream dead", "Redis dead", "budget spent"],
  ["upstream hangs"],
];

const CALLER = { service: "propertyservice", callerId: "bench", privateKey: "bench-private-key" };

/** How long callers wait for expired answers that cannot be fetched again, compared with fresh answers. */
export async function benchOutages(urls: number): Promise<void> {
  const rows: string[][] = [];
  let base: number | undefined;
  for (const troubles of CASES) {
    const waits = (await waitsIn(troubles, urls)).toSorted((a, b) => a - b);
    const at = (part: number): number => waits[Math.floor((waits.length - 1) * part)] ?? Number.NaN;
    base ??= at(0.5);
    const name = troubles.length === 0 ? "fresh, all well" : troubles.join(", ");
    rows.push([name, ...[0.5, 0.99, 1].map((part) => `${at(part).toFixed(1)} ms`), ratio(at(0.5), base)]);
  }
  printTable(
    `A wait for each of ${urls} answers asked for one after the other, expired but for the first row`,
    ["state", "median", "p99", "longest", "of fresh"],
    rows,
  );
}

/** @returns the wait for each URL, in milliseconds */
async function waitsIn(troubles: readonly Trouble[], urls: number): Promise<number[]> {
  const redis = await startRedis();
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 500, sold: 10 } });
  const { url } = await sandbox.listen();
  const isWell = troubles.length === 0;
  const gateway = open(url, {
    REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    BUDGET: troubles.includes("budget spent") ? `${urls}/1d` : "100000/1m",
    CACHE_TTL: isWell ? "listings=1h" : "listings=1ms",
  });
  const { callers } = await gateway.start();
  const paths = Array.from({ length: urls }, (_, n) => `${callers.url}/listings?limit=5&offset=${n}`);
  for (const path of paths) await ask(path);
  await inject(troubles, sandbox, redis);

  const waits = [];
  for (const path of paths) {
    const askedAt = performance.now();
    const { status } = await ask(path);
    if (status !== 200) throw new Error(`${troubles.join(", ")}: ${status}`);
    waits.push(performance.now() - askedAt);
  }
  await sandbox.close();
  await gateway.stop();
  await redis.close();
  return waits;
}

async function inject(troubles: readonly Trouble[], sandbox: Sandbox, redis: RedisServer): Promise<void> {
  if (troubles.includes("upstream dead")) await sandbox.close();
  if (troubles.includes("upstream hangs")) sandbox.faults.add({ hang: "headers" });
  if (troubles.includes("Redis dead")) await redis.kill();
}

function open(upstreamUrl: string, env: Readonly<Record<string, string>>): ReturnType<typeof createGateway> {
  const source = openSettings({
    env: {
      HOST: "127.0.0.1",
      PORT: "0",
      ADMIN_PORT: "0",
      UPSTREAM_URL: upstreamUrl,
      UPSTREAM_IMAGE_URL: upstreamUrl,
      UPSTREAM_SERVICE: CALLER.service,
      UPSTREAM_CALLER_ID: CALLER.callerId,
      UPSTREAM_PRIVATE_KEY: CALLER.privateKey,
      UPSTREAM_USER_AGENT: "property-gateway-bench/1.0 (ops@example.com)",
      UPSTREAM_REFERRER: "https://www.example.com/",
      CACHE_STALE_WHILE_REVALIDATE: "listings=0s",
      LOG_LEVEL: "silent",
      ...env,
    },
    readFile: (path) => readFileSync(path, "utf8"),
  });
  const { privateKey } = source.first.config.upstream;
  const log = createLogger({ level: "silent", secrets: [] });
  return createGateway({ source, keys: createPrivateKeys(privateKey), clock, random, log });
}

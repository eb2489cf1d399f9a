/** How costs grow with the entries in memory and with open connections, and how long a start takes. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { Cache } from "../src/cache/cache.ts";
import { createChecks } from "../src/cache/lifetimes/checks.ts";
import { Failures } from "../src/cache/recent-failures.ts";
import { createLifetimes } from "../src/cache/lifetimes/learned-lifetimes.ts";
import { createMemoryStore } from "../src/cache/store/memory.ts";
import { Tiers } from "../src/cache/store/tiered.ts";
import { systemClock as clock } from "../src/process/clock.ts";
import { entryWith, keyOf } from "../test/support/entries.ts";
import { questionWith, requestWith } from "../test/support/question.ts";
import { rulesWith } from "../test/support/rules.ts";
import { createRawClient, type Exchange, requestBytes } from "./raw-client.ts";
import { memoryOf, startGatewayProcess, startOrigin } from "./servers.ts";
import { median, micros, printTable } from "./table.ts";

export interface ScaleOptions {
  readonly entries: readonly number[];
  readonly connections: readonly number[];
  readonly forMs: number;
}

export async function benchScale({ entries, connections, forMs }: ScaleOptions): Promise<void> {
  await benchEntries(entries, forMs);
  await benchConnections(connections, forMs);
  await benchStart(forMs < 1_000 ? 1 : 5);
}

// --- Entries ---

/** The most questions that are asked in turn. They are too many to stay in the processor's caches. */
const MOST_ASKED = 100_000;
/** The heap per entry is shown only if there are at least this many entries. */
const LEAST_WEIGHED = 10_000;

async function benchEntries(counts: readonly number[], forMs: number): Promise<void> {
  const rows: string[][] = [];
  for (const count of counts) {
    const memory = createMemoryStore(Number.MAX_SAFE_INTEGER, clock);
    const tiers = new Tiers(memory, undefined, clock);
    const { answerAtOnce } = new Cache({
      tiers,
      load: () => Promise.reject(new Error("not in memory")),
      refresh: async () => "skipped",
      failures: new Failures(),
      checks: createChecks(
        () => 0,
        () => undefined,
      ),
      lifetimes: createLifetimes(() => "fixed"),
      isCoolingOff: () => false,
      rules: () => RULES,
      clock,
    });
    const body = Buffer.from("{}");
    const before = heapBytes();
    const now = clock.now();
    for (let nth = 0; nth < count; nth++)
      memory.put(keyOf(`listings?areaId=${nth}`), {
        ...entryWith(body, now),
        freshUntil: now + 1e9,
        keepUntil: now + 1e9,
      });
    const bytes = (heapBytes() - before) / count;
    const step = Math.ceil(count / MOST_ASKED);
    const questions = Array.from({ length: Math.min(count, MOST_ASKED) }, (_, nth) =>
      questionWith(requestWith(now), `listings?areaId=${(nth * step * 7_919) % count}`),
    );
    const costs: number[] = [];
    for (let round = 0; round < 7; round++) {
      let asked = 0;
      const cpu = process.cpuUsage();
      for (const endsAt = performance.now() + forMs / 7; performance.now() < endsAt;) {
        for (let nth = 0; nth < 100; nth++) {
          const question = questions[asked++ % questions.length];
          if (question === undefined || answerAtOnce(question)?.outcome !== "hit")
            throw new Error("not a hit");
        }
      }
      const { user, system } = process.cpuUsage(cpu);
      costs.push((user + system) / 1_000 / asked);
    }
    // With few entries, the rest of the process needs more memory than the entries.
    const perEntry = count < LEAST_WEIGHED ? "–" : `${Math.round(bytes)} bytes`;
    rows.push([count.toLocaleString("en"), micros(median(costs)), perEntry]);
  }
  printTable("Finding an answer in memory", ["entries", "CPU", "heap per entry, besides its body"], rows);
}

const RULES = rulesWith({ retentionMs: 1e12, maxAgeEverMs: 1e12 });

function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  for (let time = 0; time < 2; time++) collect();
  return process.memoryUsage().heapUsed;
}

// --- Connections ---

const MANY_CONNECTIONS = `
server: { maxConnections: 50000, keepAliveTimeout: 10m, headersTimeout: 10m, requestTimeout: 10m }
cache: { ttl: 24h, honourUpstream: false }
`;
const PATH = "/listings?limit=25&areaId=76";

async function benchConnections(counts: readonly number[], forMs: number): Promise<void> {
  const rows: string[][] = [];
  const origin = await startOrigin();
  for (const count of counts) {
    const gateway = await startGatewayProcess(origin.port, { settings: MANY_CONNECTIONS });
    const exchange = await exchangeOf(gateway.port);
    const first = await createRawClient(gateway.port, 16, [exchange]);
    await first.run(1_000);
    const before = memoryOf(gateway.pid);
    const client = await createRawClient(gateway.port, count, [exchange]);
    // Sends one request on each connection.
    await client.run(0);
    const bytes = (memoryOf(gateway.pid) - before) / count;
    const costs: number[] = [];
    for (let round = 0; round < 7; round++) {
      const cpu = gateway.cpuMs();
      const answered = await client.run(forMs / 7);
      costs.push((gateway.cpuMs() - cpu) / answered);
    }
    rows.push([
      count.toLocaleString("en"),
      micros(median(costs)),
      count < 1_000 ? "–" : `${(bytes / 1024).toFixed(1)} KiB`,
    ]);
    first.close();
    client.close();
    await gateway.stop();
  }
  await origin.stop();
  printTable(
    "Hits on open connections, all of them busy",
    ["connections", "CPU per hit", "memory per connection"],
    rows,
  );
}

/** Makes the gateway cache the answer. */
async function exchangeOf(port: number): Promise<Exchange> {
  let body = Buffer.alloc(0);
  for (let time = 0; time < 2; time++)
    body = Buffer.from(await (await fetch(`http://127.0.0.1:${port}${PATH}`)).arrayBuffer());
  return { request: requestBytes(PATH), status: 200, bodyBytes: body.length, ends: body.subarray(-16) };
}

// --- Start ---

async function benchStart(times: number): Promise<void> {
  const waits: number[] = [];
  const costs: number[] = [];
  const origin = await startOrigin();
  for (let time = 0; time < times; time++) {
    const startedAt = performance.now();
    const { cpuMs, stop } = await startGatewayProcess(origin.port);
    waits.push(performance.now() - startedAt);
    costs.push(cpuMs());
    await stop();
  }
  await origin.stop();
  printTable(
    "A start, from the new process to the open port",
    ["time", "CPU"],
    [[`${Math.round(median(waits))} ms`, `${Math.round(median(costs))} ms`]],
  );
}

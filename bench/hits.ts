import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import http from "node:http";
import { fileURLToPath } from "node:url";

import { createRawClient, type Exchange, type RawClient, requestBytes } from "./raw-client.ts";
import { micros, printTable } from "./table.ts";

const CONNECTIONS = 16;
const SPELLINGS = 1_000;
const ROUNDS = 7;
const PATH = "/listings?limit=25&objectType=villa,radhus,l%C3%A4genhet&areaId=76";
const TARGETS = Array.from({ length: SPELLINGS }, (_, index) => `${PATH}&_=${index}`);

/** What is asked, and with which log level the gateway runs. */
interface Workload {
  readonly name: string;
  readonly logLevel: "warn" | "info";
  readonly headers: (etag: string) => readonly string[];
}

const WORKLOADS: readonly Workload[] = [
  { name: "15 KB", logLevel: "warn", headers: () => [] },
  { name: "15 KB, br", logLevel: "warn", headers: () => ["Accept-Encoding: br"] },
  { name: "304", logLevel: "warn", headers: (etag) => [`If-None-Match: ${etag}`] },
  { name: "15 KB, access log", logLevel: "info", headers: () => [] },
];

interface Server {
  readonly child: ChildProcess;
  readonly port: number;
  /** The child's CPU time so far, milliseconds. */
  readonly cpuMs: () => Promise<number>;
}

/** What the bare server sends to every request. */
export interface FixedAnswer {
  readonly status: number;
  readonly head: readonly string[];
  readonly bodyBase64: string;
  readonly targets: readonly string[];
}

async function start(kind: string, answer?: FixedAnswer): Promise<Server> {
  const script = fileURLToPath(new URL("hits-server.ts", import.meta.url));
  const child = fork(script, [kind], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const tell = async (name: string): Promise<unknown> => {
    const [message]: unknown[] = await once(child, "message");
    return typeof message === "object" && message !== null ? Reflect.get(message, name) : undefined;
  };
  if (answer !== undefined) child.send(answer);
  return {
    child,
    port: Number(await tell("port")),
    cpuMs: async () => {
      child.send("cpu");
      return Number(await tell("cpuMs"));
    },
  };
}

/** CPU time of the gateway for a cached answer of 15 KB or so, milliseconds. */
export async function plainHitCpuMs(forMs: number): Promise<number> {
  const gateway = await start("warn");
  const { status, body } = await ask(gateway.port, []);
  const exchange: Exchange = { request: requestBytes(PATH), status, bodyBytes: body.length };
  const [costs = []] = await alternate([gateway], [exchange], forMs / ROUNDS);
  gateway.child.kill();
  return median(costs);
}

/**
 * Cached answers through the gateway, beside a bare node:http server that looks the URL up in a map and sends the same
 * head and body. The rounds of both alternate; the medians are shown.
 */
export async function benchHits(forMs: number): Promise<void> {
  const rows: string[][] = [];
  for (const { name, logLevel, headers } of WORKLOADS) {
    const gateway = await start(logLevel);
    const first = await ask(gateway.port, []);
    const lines = headers(String(first.headers.etag));
    const sample = await ask(gateway.port, lines);
    const bare = await start("bare", fixed(sample));
    const exchanges = TARGETS.map((target): Exchange => ({
      request: requestBytes(target, lines),
      status: sample.status,
      bodyBytes: sample.body.length,
    }));
    const [bareMs, gatewayMs] = await alternate([bare, gateway], exchanges, forMs / ROUNDS);
    for (const { child } of [bare, gateway]) child.kill();
    const ratios = (gatewayMs ?? []).map((ms, round) => ms / (bareMs?.[round] ?? Number.NaN));
    rows.push([
      name,
      micros(median(bareMs ?? [])),
      micros(median(gatewayMs ?? [])),
      `${median(ratios).toFixed(2)}x`,
    ]);
  }
  printTable(
    `A cached answer, asked for in ${SPELLINGS.toLocaleString("en")} spellings: CPU each`,
    ["answer", "bare node:http", "gateway", "of bare"],
    rows,
  );
}

/** @returns the CPU time per request of each server in each round, milliseconds; the first rounds are not counted */
async function alternate(
  servers: readonly Server[],
  exchanges: readonly Exchange[],
  forMs: number,
): Promise<number[][]> {
  const clients: RawClient[] = [];
  for (const { port } of servers) clients.push(await createRawClient(port, CONNECTIONS, exchanges));
  const costs = servers.map((): number[] => []);
  for (let round = -2; round < ROUNDS; round++) {
    for (const [index, server] of servers.entries()) {
      const before = await server.cpuMs();
      const count = (await clients[index]?.run(forMs)) ?? 0;
      const each = ((await server.cpuMs()) - before) / count;
      if (round >= 0) costs[index]?.push(each);
    }
  }
  for (const client of clients) client.close();
  return costs;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

interface Sample {
  readonly status: number;
  readonly rawHeaders: readonly string[];
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

async function ask(port: number, lines: readonly string[]): Promise<Sample> {
  const headers = Object.fromEntries(lines.map((line) => line.split(": ")));
  const request = http.get({ port, host: "127.0.0.1", path: PATH, headers, agent: false });
  const [response]: http.IncomingMessage[] = await once(request, "response");
  if (response === undefined) throw new Error("no response");
  const body = Buffer.concat(await response.toArray());
  return {
    status: response.statusCode ?? 0,
    rawHeaders: response.rawHeaders,
    headers: response.headers,
    body,
  };
}

/** The headers that Node adds by itself. */
const NODES_OWN = new Set(["date", "connection", "keep-alive"]);

function fixed({ status, rawHeaders, body }: Sample): FixedAnswer {
  const head = rawHeaders.filter(
    (_, index) => !NODES_OWN.has(rawHeaders[index - (index % 2)]?.toLowerCase() ?? ""),
  );
  return { status, head, bodyBase64: body.toString("base64"), targets: TARGETS };
}

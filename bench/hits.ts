/** Cached answers of the gateway, compared with a bare server and with its peers. */
import type http from "node:http";
import { promisify } from "node:util";
import { brotliDecompress, gunzip, zstdDecompress } from "node:zlib";

import { ask } from "../test/support/ask.ts";
import { createRawClient, type Exchange, forAll, type RawClient, requestBytes } from "./raw-client.ts";
import {
  type Server,
  startBare,
  startGatewayProcess,
  startNginx,
  startOrigin,
  startVarnish,
} from "./servers.ts";
import { median, micros, printTable, quantile } from "./table.ts";

const CONNECTIONS = 16;
const PAGE = "/listings?limit=25&minRooms=1&areaId=76";

/** The requests of one row. */
interface Workload {
  readonly name: string;
  readonly targets: readonly string[];
  readonly headers?: readonly string[];
  /** The caller has the answer already, and sends its entity tag. */
  readonly isConditional?: true;
  readonly withAccessLog?: true;
  /** The name of a server that is left out. */
  readonly without?: string;
}

function spellings(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${PAGE}&_=${index}`);
}

/** Pages of several sizes from the first block of 500. */
function pages(count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    const limit = 20 + (index % 11);
    return `/listings?limit=${limit}&offset=${(index * 7) % (500 - limit)}`;
  });
}

/** The same pages, with an undocumented parameter. The gateway does not cut such pages from blocks. */
function fetchedAlone(count: number): string[] {
  return pages(count).map((target) => `${target}&undocumented=1`);
}

function workloads(many: number, distinct: number): readonly Workload[] {
  const each = spellings(many);
  const some = `${many.toLocaleString("en")} spellings`;
  return [
    { name: "one URL", targets: [PAGE] },
    { name: some, targets: each },
    { name: `${some}, access log`, targets: each, withAccessLog: true },
    { name: `${some}, 304`, targets: each, isConditional: true },
    { name: `${some}, gzip`, targets: each, headers: ["Accept-Encoding: gzip"] },
    { name: `${some}, br`, targets: each, headers: ["Accept-Encoding: br"], without: "Varnish" },
    { name: `${many.toLocaleString("en")} pages cut from a block`, targets: pages(many) },
    { name: `${many.toLocaleString("en")} pages fetched alone`, targets: fetchedAlone(many) },
    {
      name: `${distinct.toLocaleString("en")} records`,
      targets: Array.from({ length: distinct }, (_, index) => `/listings/${1_000_000 + index}`),
    },
  ];
}

export interface HitsOptions {
  /** How long each server is measured in a round, milliseconds. */
  readonly roundMs: number;
  readonly rounds: number;
  /** How many spellings, and how many pages. */
  readonly many: number;
  /** How many different records the largest workload asks for. */
  readonly distinct: number;
  /** Whether nginx and Varnish are measured, too. */
  readonly withPeers: boolean;
}

/**
 * The rounds of all servers alternate. A row shows the median CPU time of each server, and the median ratio of its rounds to
 * those of the bare server.
 */
export async function benchHits({ roundMs, rounds, many, distinct, withPeers }: HitsOptions): Promise<void> {
  const rows: string[][] = [];
  const names = ["bare node:http", "gateway", ...(withPeers ? ["nginx", "Varnish"] : [])];
  const origin = await startOrigin();
  const peers = withPeers ? [await startNginx(origin.port), await startVarnish(origin.port)] : [];
  const [silent, logging] = [
    await startGatewayProcess(origin.port),
    await startGatewayProcess(origin.port, { logLevel: "info" }),
  ];
  for (const workload of workloads(many, distinct)) {
    const gateway = workload.withAccessLog ? logging : silent;
    const truth = await bodiesOf(origin.port, workload.targets);
    const warm = await exchangesOf(gateway, workload, truth);
    const bare = await startBare({
      port: gateway.port,
      targets: workload.targets,
      headers: [...(workload.headers ?? []), ...conditionOf(warm[0])],
    });
    const others = peers.filter((peer) => peer !== undefined && peer.name !== workload.without);
    const servers = [bare, gateway, ...others.filter((peer) => peer !== undefined)];
    const exchanges = [warm];
    for (const server of servers)
      if (server !== gateway) exchanges.push(await exchangesOf(server, workload, truth));
    const [ofGateway = [], ofBare = [], ...ofPeers] = exchanges;
    const costs = await alternate(servers, [ofBare, ofGateway, ...ofPeers], rounds, roundMs);
    await bare.stop();
    rows.push([workload.name, ...names.map((name) => shown(servers, costs, name))]);
  }
  for (const server of [silent, logging, ...peers]) await server?.stop();
  await origin.stop();
  printTable(
    "Cached answers: CPU time per request, and as a multiple of bare node:http",
    ["", ...names],
    rows,
  );
}

/** @returns the gateway's CPU time for a cached answer of about 15 KB, in milliseconds */
export async function plainHitCpuMs(forMs: number): Promise<number> {
  const origin = await startOrigin();
  const gateway = await startGatewayProcess(origin.port);
  const workload = { name: "", targets: [PAGE] };
  const exchanges = await exchangesOf(gateway, workload, await bodiesOf(origin.port, workload.targets));
  const [costs = []] = await alternate([gateway], [exchanges], 7, forMs / 7);
  await gateway.stop();
  await origin.stop();
  return median(costs);
}

function shown(servers: readonly Server[], costs: readonly number[][], name: string): string {
  const [bare = [], ...others] = costs;
  const index = servers.findIndex((server) => server.name === name);
  const own = index === 0 ? bare : others[index - 1];
  if (own === undefined) return "–";
  if (index === 0) return micros(median(own));
  const ratios = own.map((ms, round) => ms / (bare[round] ?? Number.NaN));
  return `${micros(median(own))}, ${median(ratios).toFixed(2)}x (${quantile(ratios, 0.25).toFixed(2)}–${quantile(ratios, 0.75).toFixed(2)})`;
}

/** @returns each server's CPU time per request in each round, in milliseconds. The warm-up rounds are not included. */
async function alternate(
  servers: readonly Server[],
  exchanges: readonly (readonly Exchange[])[],
  rounds: number,
  roundMs: number,
): Promise<number[][]> {
  const clients: RawClient[] = [];
  for (const [index, { port }] of servers.entries())
    clients.push(await createRawClient(port, CONNECTIONS, exchanges[index] ?? []));
  const costs = servers.map((): number[] => []);
  const warmUp = Math.min(rounds, 5);
  for (let round = -warmUp; round < rounds; round++) {
    for (const [index, server] of servers.entries()) {
      const before = server.cpuMs();
      const count = (await clients[index]?.run(roundMs)) ?? 0;
      const each = (server.cpuMs() - before) / count;
      if (round >= 0) costs[index]?.push(each);
    }
  }
  for (const client of clients) client.close();
  return costs;
}

interface Sample {
  readonly status: number;
  readonly etag: string;
  readonly coded: Buffer;
  readonly body: Buffer;
}

const DECODE = { gzip: promisify(gunzip), br: promisify(brotliDecompress), zstd: promisify(zstdDecompress) };

async function sampleOf(
  agent: http.Agent,
  port: number,
  path: string,
  lines: readonly string[],
): Promise<Sample> {
  const headers = Object.fromEntries(lines.map((line) => line.split(": ")));
  const reply = await ask(`http://127.0.0.1:${port}${path}`, { agent, headers });
  const { "content-encoding": coding, etag = "" } = reply.headers;
  const coded = reply.body;
  const body =
    coding === "gzip" || coding === "br" || coding === "zstd" ? await DECODE[coding](coded) : coded;
  return { status: reply.status, etag, coded, body };
}

/** @returns the origin's own answers */
async function bodiesOf(port: number, targets: readonly string[]): Promise<Buffer[]> {
  return await forAll(targets, async (target, agent) => (await sampleOf(agent, port, target, [])).body);
}

/** Makes a server cache all answers, and checks each one. @returns the exchanges to measure */
async function exchangesOf(
  { name, port }: Server,
  { targets, headers = [], isConditional }: Workload,
  truth: readonly Buffer[],
): Promise<Exchange[]> {
  // A copy has only the answers that it copied.
  const isCopy = name.startsWith("bare");
  return await forAll([...targets.entries()], async ([index, target], agent) => {
    let condition: string[] = [];
    if (!(isCopy && isConditional)) {
      const { status, etag, coded, body } = await sampleOf(agent, port, target, headers);
      if (status !== 200 || truth[index]?.equals(body) !== true)
        throw new Error(`${name} does not answer as the origin does: ${target}`);
      if (!isConditional) return exchangeWith(target, headers, status, coded);
      condition = [`If-None-Match: ${etag}`];
    }
    const { status, coded } = await sampleOf(agent, port, target, [...headers, ...condition]);
    if (status !== 304) throw new Error(`${name} answers ${status}: ${target}`);
    return exchangeWith(target, [...headers, ...condition], status, coded);
  });
}

function exchangeWith(target: string, lines: readonly string[], status: number, body: Buffer): Exchange {
  return {
    request: requestBytes(target, lines),
    status,
    bodyBytes: body.length,
    ends: Buffer.from(body.subarray(-16)),
  };
}

/** @returns the condition in a request, if it has one */
function conditionOf(exchange: Exchange | undefined): string[] {
  return /^If-None-Match: .*$/m.exec(exchange?.request.toString("latin1") ?? "")?.slice(0, 1) ?? [];
}

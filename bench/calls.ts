/** Upstream calls of a mixed workload: the gateway with each feature off and on, compared with nginx and Varnish. */
import { once } from "node:events";
import http from "node:http";

import { generateData } from "../src/sandbox/dataset/generate.ts";
import { listBody } from "../src/sandbox/envelope.ts";
import { search } from "../src/sandbox/search.ts";
import { ask } from "../test/support/ask.ts";
import { createWorkload, type WorkloadRequest } from "../test/support/workload.ts";
import { startGateway } from "./gateway.ts";
import { type Server, startNginx, startVarnish } from "./servers.ts";
import { printTable } from "./table.ts";

const DATA = generateData({ seed: 1, listings: 12_000, sold: 24_000, service: "propertyservice" });
const AREAS = DATA.areas.map(({ record }) => record.serviceId).slice(0, 60);
const SEARCHES = 250;

/** Only the first request for an answer causes an upstream call. */
const LASTING = "cache: { ttl: 24h, maxBytes: 1GiB }\n";

interface Cache {
  readonly url: string;
  /** Calls that reached the upstream so far. */
  readonly calls: () => number;
  readonly stop: () => Promise<void>;
}

/** @returns `undefined` if the program is not installed */
type Start = () => Promise<Cache | undefined>;

export async function benchCalls(requests: number, seed: number): Promise<void> {
  const workload = createWorkload({ seed, requests, searches: SEARCHES, areaIds: AREAS });
  const systems: [string, Start][] = [
    ["nginx, configured with care", () => startPeer((port) => startNginx(port, "calls.nginx.conf"))],
    ["Varnish, configured with care", () => startPeer((port) => startVarnish(port, "calls.vcl"))],
    ["pages.fold: off", () => startOurs("pages: { fold: off }")],
    ["pages.fold: on", () => startOurs("")],
  ];
  const rows: string[][] = [];
  for (const [name, start] of systems) {
    const cache = await start();
    if (cache === undefined) continue;
    const before = cache.calls();
    // Stops the cache also after a failure.
    await play(cache.url, workload).finally(cache.stop);
    const calls = cache.calls() - before;
    rows.push([name, String(calls), ((calls / requests) * 1_000).toFixed(1)]);
  }
  const title = `Upstream calls of ${requests.toLocaleString("en")} mixed requests (seed ${seed})`;
  printTable(title, ["", "calls", "per 1,000"], rows);
}

async function startOurs(settings: string): Promise<Cache> {
  const { url, sandbox, stop } = await startGateway({ data: DATA }, LASTING + settings);
  return { url, stop, calls: () => sandbox.counts().total };
}

/** The upstream without signatures, because nginx and Varnish cannot sign. */
async function startOrigin(): Promise<Cache & { readonly port: number }> {
  let calls = 0;
  const server = http.createServer((request, response) => {
    calls += 1;
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://origin");
    const resource = pathname.startsWith("/sold") ? "sold" : "listings";
    // Some apps write `00`, which the gateway would send as `0`.
    const params = [...searchParams].map(([name, value]) => [name, value.replace(/^0+(?=\d)/, "")]);
    const found = search(DATA, resource, Object.fromEntries(params));
    response.setHeader("Content-Type", "application/json");
    response.end(listBody(resource, found, "offset"));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    await once(server.close(), "close");
  };
  return { port, url: `http://127.0.0.1:${port}`, calls: () => calls, stop };
}

async function startPeer(
  startAt: (originPort: number) => Promise<Server | undefined>,
): Promise<Cache | undefined> {
  const origin = await startOrigin();
  const peer = await startAt(origin.port);
  const stop = async (): Promise<void> => {
    await peer?.stop();
    await origin.stop();
  };
  if (peer === undefined) await stop();
  return peer && { url: `http://127.0.0.1:${peer.port}`, calls: origin.calls, stop };
}

async function play(url: string, requests: readonly WorkloadRequest[]): Promise<void> {
  const agent = new http.Agent({ keepAlive: true });
  for (const { target, app } of requests) {
    const { status } = await ask(url + target, { agent, headers: { "x-app-id": app } });
    if (status !== 200) throw new Error(`${target}: status ${status}`);
  }
  agent.destroy();
}

/** Upstream calls of a mixed workload: the gateway with each feature off and on, compared with nginx and Varnish. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

import { generateData } from "../src/sandbox/dataset/generate.ts";
import { listBody } from "../src/sandbox/envelope.ts";
import { search } from "../src/sandbox/search.ts";
import { createWorkload, type WorkloadRequest } from "../test/support/workload.ts";
import { startGateway } from "./gateway.ts";
import { freePort } from "./servers.ts";
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
    ["nginx, configured with care", startNginx],
    ["Varnish, configured with care", startVarnish],
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

async function startOurs(settings: string): Promise<Cache & { readonly adminUrl: string }> {
  const { url, adminUrl, sandbox, stop } = await startGateway({ data: DATA }, LASTING + settings);
  return { url, adminUrl, stop, calls: () => sandbox.counts().total };
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

/** Debian installs servers in a directory that only root has in its PATH. */
const ENV = { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin` };

const startNginx: Start = () =>
  startPeer("nginx", "calls.nginx.conf", ({ dir, config }) => ["-p", dir, "-c", config]);

const startVarnish: Start = () =>
  startPeer("varnishd", "calls.vcl", ({ dir, config, port }) => {
    const work = join(dir, "work");
    mkdirSync(work);
    const listen = ["-a", `127.0.0.1:${port}`, "-f", config, "-n", work];
    return ["-F", "-j", "none", ...listen, "-s", "malloc,2G"];
  });

interface Place {
  readonly dir: string;
  readonly config: string;
  readonly port: number;
}

async function startPeer(
  command: string,
  template: string,
  argumentsFor: (place: Place) => readonly string[],
): Promise<Cache | undefined> {
  if (spawnSync(command, ["-V"], { env: ENV, stdio: "ignore" }).error !== undefined) {
    console.log(`${command} is not installed, and is left out.`);
    return undefined;
  }
  const origin = await startOrigin();
  const port = await freePort();
  const dir = mkdtempSync(join(tmpdir(), "property-gateway-bench-"));
  const config = join(dir, template);
  // nginx' worker must be able to read the directory.
  const user = process.getuid?.() === 0 ? "user root;" : "";
  const values: Readonly<Record<string, string | number>> = { dir, port, user, originPort: origin.port };
  const text = readFileSync(new URL(`peers/${template}`, import.meta.url), "utf8");
  writeFileSync(
    config,
    text.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => String(values[name])),
  );
  const child = spawn(command, argumentsFor({ dir, config, port }), { stdio: "ignore", env: ENV });
  await accepts(port, child);
  return {
    url: `http://127.0.0.1:${port}`,
    calls: origin.calls,
    async stop() {
      const ended = once(child, "exit");
      child.kill();
      await ended;
      await origin.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function accepts(port: number, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    const socket = net.connect(port, "127.0.0.1");
    const { promise, resolve } = Promise.withResolvers<boolean>();
    socket.on("connect", () => resolve(true));
    socket.on("error", () => resolve(false));
    const isUp = await promise;
    socket.destroy();
    if (isUp) return;
    await setTimeout(50);
  }
  throw new Error(`${child.spawnfile} did not start`);
}

async function play(url: string, requests: readonly WorkloadRequest[]): Promise<void> {
  const agent = new http.Agent({ keepAlive: true });
  for (const { target, app } of requests) {
    const status = await get(url + target, agent, app);
    if (status !== 200) throw new Error(`${target}: status ${status}`);
  }
  agent.destroy();
}

function get(url: string, agent: http.Agent, app: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  http
    .get(url, { agent, headers: { "x-app-id": app } }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode));
    })
    .on("error", reject);
  return promise;
}

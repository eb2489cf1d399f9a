/**
 * Out-of-date answers for the same calls: the gateway with learned and with fixed lifetimes, nginx and Varnish play the same
 * requests in front of data that changes. Time is compressed: a lifetime of two seconds stands for one of five minutes.
 */
import { once } from "node:events";
import http from "node:http";
import { setTimeout as pause } from "node:timers/promises";

import { type Changes, createChanges } from "../src/sandbox/dataset/changes.ts";
import { generateData } from "../src/sandbox/dataset/generate.ts";
import type { PropertyRow } from "../src/sandbox/dataset/model.ts";
import { singleBody } from "../src/sandbox/envelope.ts";
import { seededRandom } from "../src/sandbox/dataset/random.ts";
import { revisedRow } from "../src/sandbox/dataset/revisions.ts";
import { ask } from "../test/support/ask.ts";
import { portOf } from "../test/support/ports.ts";
import { startGateway } from "./gateway.ts";
import { type Server, startNginx, startVarnish } from "./servers.ts";
import { printTable } from "./table.ts";

/** nginx counts lifetimes in whole seconds, so a shorter one would not be comparable. */
const TTL_MS = 2_000;
const RECORDS = 150;
const REQUESTS_PER_SECOND = 40;

const DATA = generateData({ seed: 1, listings: RECORDS, sold: 1, service: "propertyservice" });
const ROW_OF = new Map<string, PropertyRow>(
  [...DATA.listingById].map(([id, row]) => [`/listings/${id}`, row]),
);
const PATHS = [...ROW_OF.keys()];

const CACHES = ["gateway, learned", "gateway, fixed", "nginx", "Varnish"];

/** How the data changes. The n-th popular record gets 1/n of the requests of the first. */
interface World {
  readonly name: string;
  readonly seed: number;
  /** Lifetimes between two changes of the median record, and the deviation of the logarithm of the rates. */
  readonly medianLifetimes: number;
  readonly spread: number;
  readonly isCorrelated?: boolean;
  /** Without nginx and Varnish. */
  readonly isOursOnly?: boolean;
  readonly requestsPerSecond?: number;
}

interface FreshnessOptions {
  /** How long each world is played. The first third is not counted. */
  readonly lifetimes: number;
  readonly seeds: readonly number[];
  readonly isShort?: boolean;
}

export async function benchFreshness({ lifetimes, seeds, isShort = false }: FreshnessOptions): Promise<void> {
  const usual = { medianLifetimes: 40, spread: 2.5 };
  const [seed = 1] = seeds;
  const worlds: World[] = [
    ...seeds.map((each) => ({ name: `rates differ, seed ${each}`, seed: each, ...usual })),
    { name: "popular records change more often", seed, ...usual, spread: 2, isCorrelated: true },
    // The results of the two modes should hardly differ. More requests make the result more precise.
    { name: "equal rates", seed, medianLifetimes: 15, spread: 0, isOursOnly: true, requestsPerSecond: 200 },
    { name: "nothing changes", seed, medianLifetimes: Infinity, spread: 0, isOursOnly: true },
    { name: "everything changes all the time", seed, medianLifetimes: 0.05, spread: 0, isOursOnly: true },
  ];
  const rows: string[][] = [];
  for (const world of isShort ? worlds.slice(0, 1) : worlds) rows.push(await playWorld(world, lifetimes));
  printTable("Out-of-date answers", ["", ...CACHES], rows);
}

interface Cache {
  readonly name: string;
  readonly url: string;
  /** Calls that reached the upstream so far. */
  readonly calls: () => number;
  readonly stop: () => Promise<void>;
}

interface Counts {
  requests: number;
  outOfDate: number;
}

/** @returns the row of the world: its name, and a cell for each cache */
async function playWorld(world: World, lifetimes: number): Promise<string[]> {
  const changes = changesOf(world);
  const { requestsPerSecond = REQUESTS_PER_SECOND } = world;
  const caches = [
    await startOurs("learned", changes),
    await startOurs("fixed", changes),
    ...(world.isOursOnly === true
      ? []
      : [
          await startPeer("nginx", changes, (port) => startNginx(port, "freshness.nginx.conf")),
          await startPeer("Varnish", changes, (port) => startVarnish(port, "freshness.vcl")),
        ]),
  ].filter((cache) => cache !== undefined);
  const all = caches.map((cache) => ({ cache, first: 0, before: 0, counts: { requests: 0, outOfDate: 0 } }));
  let requests = 0;
  let firstRequests = 0;
  let latestMs = 0;
  const endMs = lifetimes * TTL_MS;
  const startedAt = performance.now();
  const random = seededRandom(world.seed + 1_000);
  const agent = new http.Agent({ keepAlive: true });
  const inFlight = new Set<Promise<unknown>>();
  for (let at = 0; at < endMs; at -= Math.log(1 - random.next()) * (1_000 / requestsPerSecond)) {
    await pause(Math.max(0, startedAt + at - performance.now()));
    latestMs = Math.max(latestMs, performance.now() - startedAt - at);
    const path = popularPath(random.next());
    if (at < 10 * TTL_MS) {
      firstRequests++;
      for (const one of all) one.first = one.cache.calls();
    }
    const isCounted = at >= endMs / 3;
    requests += isCounted ? 1 : 0;
    for (const one of all) {
      if (!isCounted) one.before = one.cache.calls();
      const done = askOne(one.cache, path, agent, changes, isCounted ? one.counts : undefined);
      inFlight.add(done);
      void done.finally(() => inFlight.delete(done));
    }
  }
  await Promise.all(inFlight);
  agent.destroy();
  const cells = new Map(
    all.map(({ cache, first, before, counts }) => {
      const calls = (((cache.calls() - before) / requests) * 1_000).toFixed(0);
      const firstCalls = ((first / firstRequests) * 1_000).toFixed(0);
      const outOfDate = ((counts.outOfDate / counts.requests) * 100).toFixed(2);
      return [cache.name, `${outOfDate} %, ${calls} (${firstCalls})`];
    }),
  );
  for (const { stop } of caches) await stop();
  // On a busy machine, requests come late and in bursts, and the result means little.
  if (latestMs > TTL_MS / 2) console.log(`A request was ${Math.round(latestMs)} ms late.`);
  const row = [world.name, ...CACHES.map((name) => cells.get(name) ?? "–")];
  console.log(row.join("  "));
  return row;
}

/** @param counts absent if the request is not counted */
async function askOne(
  { url }: Cache,
  path: string,
  agent: http.Agent,
  changes: Changes,
  counts: Counts | undefined,
): Promise<void> {
  const { status, text } = await ask(url + path, { agent });
  const isCurrent = text === bodyNow(path, changes);
  if (status !== 200) throw new Error(`${url}${path}: status ${status}`);
  if (counts === undefined) return;
  counts.requests++;
  counts.outOfDate += isCurrent ? 0 : 1;
}

const WEIGHTS = PATHS.map((_, rank) => 1 / (rank + 1));
const ALL_WEIGHTS = WEIGHTS.reduce((sum, weight) => sum + weight, 0);
const UP_TO = WEIGHTS.map((_, rank) => WEIGHTS.slice(0, rank + 1).reduce((a, b) => a + b, 0) / ALL_WEIGHTS);

function popularPath(part: number): string {
  const rank = UP_TO.findIndex((upTo) => part < upTo);
  return PATHS.at(rank) ?? "";
}

function changesOf({ seed, medianLifetimes, spread, isCorrelated = false }: World): Changes {
  const { next } = seededRandom(seed);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  const rates = PATHS.map(() => Math.exp(normal() * spread) / (medianLifetimes * TTL_MS));
  if (isCorrelated) rates.sort((a, b) => b - a);
  const rateOf = new Map(PATHS.map((path, rank) => [path, rates[rank] ?? 0]));
  return createChanges({ seed, now: Date.now, rateOf: (path) => rateOf.get(path) ?? 0 });
}

function bodyNow(path: string, changes: Changes): string {
  const row = ROW_OF.get(path);
  if (row === undefined) throw new Error(`no record at ${path}`);
  return singleBody("listings", revisedRow(row, changes.of(path).revision));
}

async function startOurs(lifetimes: "learned" | "fixed", changes: Changes): Promise<Cache> {
  const settings = `cache: { ttl: { listings: 2s, records: 2s }, staleWhileRevalidate: { records: 0s }, lifetimes: ${lifetimes} }`;
  const { url, sandbox, stop } = await startGateway({ data: DATA, changes }, settings);
  return { name: `gateway, ${lifetimes}`, url, stop, calls: () => sandbox.counts().total };
}

/** The upstream without signatures, because nginx and Varnish cannot sign. */
async function startPeer(
  name: string,
  changes: Changes,
  startAt: (originPort: number) => Promise<Server | undefined>,
): Promise<Cache | undefined> {
  let calls = 0;
  const origin = http.createServer((request, response) => {
    calls++;
    response.writeHead(200, {
      "Content-Type": "application/json",
      "Cache-Control": `max-age=${TTL_MS / 1_000}`,
    });
    response.end(bodyNow(request.url ?? "", changes));
  });
  await once(origin.listen(0, "127.0.0.1"), "listening");
  const peer = await startAt(portOf(origin));
  const stop = async (): Promise<void> => {
    await peer?.stop();
    origin.closeAllConnections();
    await once(origin.close(), "close");
  };
  if (peer === undefined) await stop();
  return peer && { name, url: `http://127.0.0.1:${peer.port}`, calls: () => calls, stop };
}

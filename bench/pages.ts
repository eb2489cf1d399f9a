/** What pages from blocks save, and what they cost. */
import http from "node:http";

import { isCompressible, transcode } from "../src/cache/encoder.ts";
import { createMemoryStore } from "../src/cache/store/memory.ts";
import { indexBlock } from "../src/pages/block-index.ts";
import { cutPage } from "../src/pages/cut.ts";
import { createCutter, type Page } from "../src/pages/cutter.ts";
import type { PagedQuery } from "../src/pages/search.ts";
import { systemClock } from "../src/process/clock.ts";
import { generateData } from "../src/sandbox/dataset/generate.ts";
import { listBody } from "../src/sandbox/envelope.ts";
import { search } from "../src/sandbox/search.ts";
import type { Entry } from "../src/types.ts";
import { entryWith } from "../test/support/entries.ts";
import { createWorkload } from "../test/support/workload.ts";
import { startGateway } from "./gateway.ts";
import { plainHitCpuMs } from "./hits.ts";
import { measure } from "./measure.ts";
import { micros, printTable, ratio } from "./table.ts";

const DATA = generateData({ seed: 1, listings: 12_000, sold: 24_000, service: "propertyservice" });
const BLOCK = { offset: 0, limit: 500 };
const QUERY: PagedQuery = { kind: "search", resource: "listings", filters: [], extras: [], ...BLOCK };

/** Upstream calls of the mixed workload, with blocks and without. */
export async function benchCalls(requests: number, seed: number): Promise<void> {
  const rows: string[][] = [];
  const areaIds = DATA.areas.map(({ record }) => record.serviceId).slice(0, 60);
  const workload = createWorkload({ seed, requests, searches: 250, areaIds });
  const agent = new http.Agent({ keepAlive: true });
  for (const fold of ["off", "on"]) {
    const settings = `
pages: { fold: ${fold}, verify: 0, maxExtraLatency: 10m }
cache: { ttl: 24h, earlyRefreshAbove: 1, maxBytes: 1GiB }
`;
    const { url, sandbox, stop } = await startGateway({ data: DATA }, settings);
    for (const { target, app } of workload) await get(url + target, agent, app);
    const calls = sandbox.counts().total;
    rows.push([`pages.fold: ${fold}`, String(calls), ((calls / requests) * 1_000).toFixed(1)]);
    await stop();
  }
  agent.destroy();
  const title = `Upstream calls of ${requests.toLocaleString("en")} mixed requests (seed ${seed})`;
  printTable(title, ["", "calls", "per 1,000"], rows);
}

/** CPU of a page that is cut, as multiples of a hit, and what a block weighs. */
export async function benchCutting(forMs: number): Promise<void> {
  const found = search(DATA, "listings", { limit: "500", offset: "0" });
  const body = Buffer.from(listBody("listings", found, "offset"));
  const raw = entryWith(body, Date.now(), { contentType: "application/json" });
  const packed: Entry = { ...raw, bodies: { zstd: await transcode(raw, "zstd") } };
  const index = indexBlock(body, "listings", BLOCK);
  if (typeof index === "string") throw new Error(index);
  const memory = createMemoryStore(1_000_000_000, systemClock);
  const ignore = (): void => undefined;
  const cutter = createCutter({
    memory,
    keepInMemory: ignore,
    transcode,
    isCompressible,
    observer: { error: ignore },
  });
  // Another buffer each time: its bytes are not remembered.
  const newlyPacked = (): Entry => ({ ...packed, bodies: { zstd: Buffer.from(packed.bodies.zstd ?? "") } });
  let nth = 0;
  const page = (key: string): Page => ({ query: QUERY, key, limit: 25, offset: (nth += 25) % 475 });
  const remembered: Page = { query: QUERY, key: "remembered", limit: 25, offset: 100 };
  const hitMs = await plainHitCpuMs(forMs);
  const rows: string[][] = [["a hit, with HTTP", micros(hitMs), ratio(1, 1)]];
  for (const [name, operation] of [
    ["a page that is remembered", () => cutter.entryOf(remembered, raw, index, true)],
    ["the bytes of a page", () => cutPage(body, index, page(""))],
    ["a page cut from a raw block", () => cutter.entryOf(page(String(nth)), raw, index, true)],
    [
      "a page cut from a compressed block",
      () => cutter.entryOf(page(String(nth)), newlyPacked(), index, true),
    ],
    ["the index of a block", () => indexBlock(body, "listings", BLOCK)],
  ] as const) {
    await measure(forMs / 4, 1, operation);
    const { cpuMs } = await measure(forMs, 1, operation);
    rows.push([name, micros(cpuMs), ratio(cpuMs, hitMs)]);
    await memory.close();
  }
  printTable("Pages of 25 from a block of 500", ["", "CPU each", "of a hit"], rows);

  const indexBytes = index.starts.byteLength * 2 + index.ids.join("").length;
  const perThousand = (bytes: number): string => `${Math.round((bytes * 2) / 1024)} KiB`;
  const kept = (packed.bodies.zstd?.length ?? 0) + indexBytes;
  printTable(
    "1,000 records held",
    ["", "bytes"],
    [
      ["raw", perThousand(body.length)],
      ["kept: compressed, with the index", perThousand(kept)],
    ],
  );
}

function get(url: string, agent: http.Agent, app: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  http
    .get(url, { agent, headers: { "x-app-id": app } }, (response) => {
      response.resume();
      response.on("end", resolve);
    })
    .on("error", reject);
  return promise;
}

/** The cost of pages from blocks in CPU time. */
import { isCompressible, transcode } from "../src/cache/encoder.ts";
import { createMemoryStore } from "../src/cache/store/memory.ts";
import { indexBlock } from "../src/pages/block-index.ts";
import { cutPage } from "../src/pages/cut-page.ts";
import { type Page, PageEntries } from "../src/pages/page-entries.ts";
import { packBlock } from "../src/pages/packed-block.ts";
import { systemClock } from "../src/process/clock.ts";
import { generateData } from "../src/sandbox/dataset/generate.ts";
import { listBody } from "../src/sandbox/envelope.ts";
import { search } from "../src/sandbox/search.ts";
import type { Entry } from "../src/cache/entry.ts";
import { entryWith } from "../test/support/entries.ts";
import { plainHitCpuMs } from "./hits.ts";
import { median, micros, printTable, ratio } from "./table.ts";

const DATA = generateData({ seed: 1, listings: 2_000, sold: 10, service: "propertyservice" });
const BLOCK = { offset: 0, limit: 500 };

/** The operations take turns, so that other work on the machine does not affect one row only. The rows show medians. */
const ROUNDS = 9;

/** Measures the CPU time of cut pages, as multiples of a hit. */
export async function benchCutting(forMs: number): Promise<void> {
  const found = search(DATA, "listings", { limit: "500", offset: "0" });
  const body = Buffer.from(listBody("listings", found, "offset"));
  const raw = entryWith(body, Date.now(), { contentType: "application/json" });
  const index = indexBlock(body, { resource: "listings", ...BLOCK });
  if (typeof index === "string") throw new Error(index);
  const packedBody = await packBlock(body, index);
  const block: Entry = { ...raw, bodies: { packed: packedBody } };
  const memory = createMemoryStore(100_000_000, systemClock);
  const ignore = (): void => undefined;
  const cutter = new PageEntries({
    memory,
    keepInMemory: ignore,
    transcode,
    isCompressible,
  });
  let nth = 0;
  const page = (key: string): Page => ({ key, limit: 25, offset: (nth += 25) % 475 });
  const remembered: Page = { key: "remembered", limit: 25, offset: 100 };
  const hitMs = await plainHitCpuMs(forMs);
  const operations: readonly (readonly [string, () => unknown])[] = [
    ["a page that is remembered", () => cutter.entryOf(remembered, raw, index, true, () => true)],
    ["the bytes of a page", () => cutPage(body, index, page(""))],
    ["a page cut from a raw block", () => cutter.entryOf(page(String(nth)), raw, index, true, () => true)],
    [
      "a page cut from a compressed block",
      () => cutter.entryOf(page(String(nth)), block, index, true, () => true),
    ],
    ["the index of a block", () => indexBlock(body, { resource: "listings", ...BLOCK })],
    ["compressing a block", () => packBlock(body, index)],
  ];
  const costs = operations.map((): number[] => []);
  for (let round = 0; round <= ROUNDS; round += 1)
    for (const [at, [, operation]] of operations.entries()) {
      const cpuMs = await cpuOf(operation, forMs / ROUNDS);
      // The first round warms up.
      if (round > 0) costs[at]?.push(cpuMs);
    }
  const rows = operations.map(([name], at) => {
    const cpuMs = median(costs[at] ?? []);
    return [name, micros(cpuMs), ratio(cpuMs, hitMs)];
  });
  rows.unshift(["a hit, with HTTP", micros(hitMs), ratio(1, 1)]);
  printTable("Pages of 25 from a block of 500", ["", "CPU each", "of a hit"], rows);
}

/** @returns the CPU time of this process for each operation, in milliseconds */
async function cpuOf(operation: () => unknown, forMs: number): Promise<number> {
  const before = process.cpuUsage();
  let count = 0;
  for (const endsAt = performance.now() + forMs; performance.now() < endsAt; count++) await operation();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / count;
}

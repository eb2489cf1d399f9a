/** When a block has been indexed, memory keeps it packed. Later pages are cut from the packed block. */
import type * as zlib from "node:zlib";

import { beforeEach, describe, expect, it, vi } from "vitest";

import { isCompressible, transcode } from "../../../src/cache/encoder.ts";
import { sizeOf, type Entry } from "../../../src/cache/entry.ts";
import { createMemoryStore, type MemoryStore } from "../../../src/cache/store/memory.ts";
import { type BlockIndex, type Stretch } from "../../../src/pages/block-index.ts";
import { cutPage } from "../../../src/pages/cut-page.ts";
import { type Page, PageEntries } from "../../../src/pages/page-entries.ts";
import type { PagedQuery } from "../../../src/pages/search.ts";
import { generateData } from "../../../src/sandbox/dataset/generate.ts";
import { listBody } from "../../../src/sandbox/envelope.ts";
import { search } from "../../../src/sandbox/search.ts";
import { entryWith, keyOf } from "../../support/entries.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { SEARCH } from "../../support/question.ts";
import { frameEnd } from "../../support/zstd.ts";

/** Node 24 decompresses only the first frame if the chunk has room left. Later versions decompress all frames. */
const node = vi.hoisted(() => ({ stopsAfterFrame: false }));
vi.mock("node:zlib", async (importOriginal) => {
  const original = await importOriginal<typeof zlib>();
  const zstdDecompressSync: typeof zlib.zstdDecompressSync = (data, options) => {
    const isCut = node.stopsAfterFrame && Buffer.isBuffer(data);
    return original.zstdDecompressSync(isCut ? data.subarray(0, frameEnd(data, 0)) : data, options);
  };
  return { ...original, zstdDecompressSync };
});

const DATA = generateData({ seed: 7, listings: 500, sold: 1, service: "propertyservice" });
const BLOCK: Stretch = { offset: 0, limit: 500 };
const QUERY: PagedQuery & Stretch = { ...SEARCH, ...BLOCK };
const KEY = keyOf("listings?limit=500&offset=0");

function upstreamSends({ offset, limit }: Stretch): string {
  return listBody(
    "listings",
    search(DATA, "listings", { limit: String(limit), offset: String(offset) }),
    "offset",
  );
}

const spiedTranscode = vi.fn(transcode);
let memory: MemoryStore;
let pageEntries: PageEntries;

beforeEach(() => {
  node.stopsAfterFrame = false;
  const clock = createFakeClock();
  memory = createMemoryStore(100_000_000, clock);
  pageEntries = new PageEntries({
    memory,
    keepInMemory: (key, entry, next) => void memory.put(key, { ...entry, bodies: next() }),
    transcode: spiedTranscode,
    isCompressible,
  });
});

async function indexOf(block: Entry): Promise<BlockIndex> {
  const index = await pageEntries.indexOf(block, { key: KEY, query: QUERY });
  if (typeof index === "string") throw new Error(index);
  return index;
}

async function page(block: Entry, index: BlockIndex, stretch: Stretch): Promise<string | undefined> {
  const key = keyOf(`listings?limit=${stretch.limit}&offset=${stretch.offset}`);
  const asked: Page = { key, ...stretch };
  const { entry } = await pageEntries.entryOf(asked, block, index, true, () => true);
  expect(Object.keys(entry.bodies)).toEqual(["identity"]);
  return entry.bodies.identity?.toString();
}

/** Indexes a block in memory, and waits until it is packed. */
async function packedBlock(block: Entry): Promise<{ readonly index: BlockIndex; readonly block: Entry }> {
  memory.put(KEY, block);
  const index = await indexOf(block);
  const current = (): Entry | undefined => memory.find(KEY);
  await expect.poll(() => current()?.bodies.packed, { interval: 1 }).toBeDefined();
  return { index, block: current() ?? block };
}

/** A block with the tags that its records and its area give it. */
function raw(): Entry {
  const sent: { listings: { serviceId: number }[] } = JSON.parse(upstreamSends(BLOCK));
  const tags = sent.listings.map(({ serviceId }) => `record:${serviceId}`);
  return entryWith(upstreamSends(BLOCK), undefined, { tags: [...tags, "area:76"] });
}

describe("a block that was indexed", () => {
  it("takes less than a fifth of the memory that it took before, besides its tags", async () => {
    const { block } = await packedBlock(raw());
    const size = (entry: Entry): number => sizeOf(KEY, { ...entry, tags: [] });
    expect(size(block)).toBeLessThan(size(raw()) / 5);
  });

  it.each([false, true])(
    "gives the same pages packed; on Node 24, which stops after a frame: %s",
    async (stops) => {
      node.stopsAfterFrame = stops;
      const { index, block } = await packedBlock(raw());
      spiedTranscode.mockClear();
      // It is not indexed again.
      expect(await indexOf(block)).toBe(index);
      for (const [offset, limit] of [
        [0, 1],
        [25, 25],
        [490, 25],
        [100, 400],
        [500, 25],
        [1, 498],
      ] as const)
        expect(await page(block, index, { offset, limit })).toBe(upstreamSends({ offset, limit }));
      // It is not decompressed as a whole.
      expect(spiedTranscode).not.toHaveBeenCalled();
      expect((await transcode(block, "identity")).toString()).toBe(upstreamSends(BLOCK));
    },
  );

  it.each([
    ["two records have the same id", (tags: string[]) => tags.with(1, tags[0] ?? "")],
    ["a record has no id", (tags: string[]) => tags.toSpliced(7, 1)],
  ])("gives no page if %s", async (_why, changed) => {
    const block = raw();
    const unfit = { ...block, tags: changed([...block.tags]) };
    expect(await pageEntries.indexOf(unfit, { key: KEY, query: QUERY })).toBeTypeOf("string");
  });

  it("gives each page the tags of its records and of the areas", async () => {
    const block = raw();
    const asked: Page = { key: keyOf("a page"), offset: 25, limit: 2 };
    const { entry } = await pageEntries.entryOf(asked, block, await indexOf(block), true, () => true);
    expect(entry.tags).toEqual([...block.tags.slice(25, 27), "area:76"]);
  });

  it("gives no page if some of its bytes are missing", async () => {
    const index = await indexOf(raw());
    const lost = { length: raw().bodyBytes, copy: () => 0 };
    expect(() => cutPage(lost, index, { offset: 0, limit: 25 })).toThrow("not complete");
  });
});

/**
 * Creates the entries of pages that are cut from blocks, and packs blocks in memory.
 *
 * A page is kept in the memory tier under a key that contains the ETag of its block. When the block changes or is removed,
 * that key is no longer looked up. The age, the freshness and the purge epoch of a page are always its block's.
 */
import { setImmediate } from "node:timers/promises";

import { entityTagOf } from "../http-fields.ts";
import { createJobs } from "../process/jobs.ts";
import type { Answer } from "../cache/cache.ts";
import type { Bodies, Entry } from "../cache/entry.ts";
import type { MemoryStore } from "../cache/store/memory.ts";
import type { ContentCoding } from "../content-codings.ts";
import { type BlockIndex, indexBlock, type Stretch, type Unfit } from "./block-index.ts";
import { type CutPage, cutPage } from "./cut-page.ts";
import { bytesIn, packBlock } from "./packed-block.ts";
import type { Block } from "./search.ts";

export interface CutterOptions {
  /** The memory tier. */
  readonly memory: Pick<MemoryStore, "find" | "put">;
  /** Replaces the bodies of an entry in memory, if memory still has this version of it. */
  readonly keepInMemory: (key: string, entry: Entry, next: () => Bodies) => void;
  readonly transcode: (entry: Entry, coding: ContentCoding) => Promise<Buffer>;
  readonly isCompressible: (entry: Entry) => boolean;
}

/** A question for a page. */
export interface Page extends Stretch {
  readonly key: string;
  /** The key under which memory keeps the page when it is cut from the block with this ETag. `page-entries.ts` sets it. */
  keptAs?: { readonly etag: string; readonly key: string } | undefined;
}

type CutEntry = Required<Pick<Answer, "entry" | "keptAs">>;

export class PageEntries {
  readonly #options: CutterOptions;
  /** Keyed by a block's list of tags. It belongs to the same bytes, whatever their coding, and is freed together with them. */
  readonly #indexes = new WeakMap<Entry["tags"], BlockIndex | Unfit>();
  // One at a time, because cutting is synchronous.
  readonly #cuts = createJobs<Entry>(1);

  constructor(options: CutterOptions) {
    this.#options = options;
  }

  /** The index of a block, or why no page can be cut from it. From then on, memory keeps the block packed. */
  async indexOf(block: Entry, { key, query }: Pick<Block, "key" | "query">): Promise<BlockIndex | Unfit> {
    const { transcode, isCompressible, keepInMemory } = this.#options;
    const known = this.#indexes.get(block.tags);
    if (known !== undefined) return known;
    const body = await transcode(block, "identity");
    const found = indexBlock(body, query);
    const index = typeof found === "string" || hasIds(block, found) ? found : NO_IDS;
    if (typeof index !== "string" && isCompressible(block) && !this.#indexes.has(block.tags))
      void packBlock(body, index).then((packed) => keepInMemory(key, block, () => ({ packed })));
    this.#indexes.set(block.tags, index);
    return index;
  }

  /** Cuts a page out of a block. */
  async cut(block: Entry, index: BlockIndex, page: Stretch): Promise<CutPage> {
    const { identity, packed } = block.bodies;
    const bytes = identity ?? (packed && bytesIn(packed, block.bodyBytes));
    return cutPage(bytes ?? (await this.#options.transcode(block, "identity")), index, page);
  }

  /** A page's entry, if memory has one that was cut from this very block. */
  find(page: Page, block: Entry): CutEntry | undefined {
    const keptAs = keyFor(page, block);
    const entry = this.#options.memory.find(keptAs);
    return entry && isAsOld(entry, block) ? { entry, keptAs } : undefined;
  }

  /**
   * A page's entry. It is kept in memory if its block may be kept. `isNew`: it was not in memory before. Rejects with
   * `JobDropped` if no caller waits for the page any more.
   */
  async entryOf(
    page: Page,
    block: Entry,
    index: BlockIndex,
    mayKeep: boolean,
    isWanted: () => boolean,
  ): Promise<CutEntry & { readonly isNew: boolean }> {
    const { memory } = this.#options;
    const keptAs = keyFor(page, block);
    const remembered = memory.find(keptAs);
    const cutNow = async (): Promise<Entry> => {
      // A cut takes up to 2 ms. Between two of them, other requests get a turn.
      await setImmediate();
      return pageEntry(await this.cut(block, index, page), page, block, index);
    };
    const found = remembered ?? (await this.#cuts.run(keptAs, isWanted, cutNow));
    const entry = isAsOld(found, block) ? found : { ...found, ...timesOf(block) };
    if (mayKeep && entry !== remembered) memory.put(keptAs, entry);
    return { entry, keptAs, isNew: remembered === undefined };
  }
}

const NO_IDS = "a record has no id, or two records have the same id";

/** The tags of a block are those of its records, in their order, and then those of its areas. */
function hasIds({ tags }: Entry, { starts }: BlockIndex): boolean {
  const ofRecords = tags.slice(0, starts.length);
  return new Set(ofRecords).size === starts.length && ofRecords.every((tag) => tag.startsWith("record:"));
}

function pageEntry({ body, from, to }: CutPage, page: Page, block: Entry, index: BlockIndex): Entry {
  return {
    ...block,
    bodies: { identity: body },
    bodyBytes: body.length,
    etag: entityTagOf(body),
    // The upstream's validators describe the block, not the page.
    validators: { etag: undefined, lastModified: undefined },
    page: { totalCount: index.totalCount, count: to - from, limit: page.limit },
    tags: [...block.tags.slice(from, to), ...block.tags.slice(index.starts.length)],
  };
}

/** @returns the key under which memory keeps a page. The page remembers it, because building and hashing it takes 2 µs. */
function keyFor(page: Page, { etag }: Entry): string {
  if (page.keptAs?.etag === etag) return page.keptAs.key;
  const key = `${page.key}#${page.limit}@${etag}`;
  page.keptAs = { etag, key };
  return key;
}

function isAsOld(page: Entry, block: Entry): boolean {
  return page.storedAt === block.storedAt && page.purgeEpoch === block.purgeEpoch;
}

/** The times of a block, which are also those of its pages. */
function timesOf(block: Entry): Partial<Entry> {
  const { purgeEpoch, storedAt, bornAt, freshUntil, upstreamStale, keepUntil } = block;
  return { purgeEpoch, storedAt, bornAt, freshUntil, upstreamStale, keepUntil };
}

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
import type { Observer } from "../telemetry/events.ts";
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
  readonly observer: Pick<Observer, "error">;
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
  readonly #packing = new Set<string>();

  constructor(options: CutterOptions) {
    this.#options = options;
  }

  /** The index of a block, or why no page can be cut from it. */
  async indexOf(block: Entry, asked: Block["query"]): Promise<BlockIndex | Unfit> {
    const known = this.#indexes.get(block.tags);
    if (known !== undefined) return known;
    const index = indexBlock(await this.#options.transcode(block, "identity"), asked);
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

  /** Packs a block in memory, in the background. */
  pack(key: string, block: Entry, index: BlockIndex): void {
    const { isCompressible, observer } = this.#options;
    if (block.bodies.packed !== undefined || this.#packing.has(key) || !isCompressible(block)) return;
    this.#packing.add(key);
    this.#packNow(key, block, index)
      .catch((error: unknown) => observer.error("A block could not be compressed.", { key, err: error }))
      .finally(() => this.#packing.delete(key));
  }

  async #packNow(key: string, block: Entry, index: BlockIndex): Promise<void> {
    const packed = await packBlock(await this.#options.transcode(block, "identity"), index);
    this.#options.keepInMemory(key, block, () => ({ packed }));
  }
}

function pageEntry({ body, ids }: CutPage, page: Page, block: Entry, index: BlockIndex): Entry {
  return {
    ...block,
    bodies: { identity: body },
    bodyBytes: body.length,
    etag: entityTagOf(body),
    // The upstream's validators describe the block, not the page.
    validators: { etag: undefined, lastModified: undefined },
    page: { totalCount: index.totalCount, count: ids.length, limit: page.limit },
    tags: [...ids.map((id) => `record:${id}`), ...block.tags.filter((tag) => tag.startsWith("area:"))],
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

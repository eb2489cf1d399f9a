/** Chooses the block that a page is cut from. */
import type { Format } from "../interface/media-types.ts";
import { blockAround, blockAt, type BlockIndex, sizesFrom } from "./block-index.ts";
import { holdsPage } from "./cut.ts";
import type { Page } from "./cutter.ts";
import type { Parts } from "./parts.ts";
import { type Asked, type Block, blockOf, isPaged, type PagedQuery, searchKey } from "./search.ts";

/** A page that may be cut, of a search in one format. */
export interface FoldablePage extends Page {
  readonly search: string;
  readonly format: Format;
  /** The size of the search's blocks. */
  readonly size: number;
  /** Whether the query leaves the limit to the upstream. */
  readonly isImplied: boolean;
  /**
   * The blocks that the page may have been cut from before: the first block, which proves that a page beyond the last
   * record is empty, and the block that the page begins in.
   */
  readonly blocks: readonly Block[];
}

/** @returns a function that returns the page of a question; `undefined` if that page may not be cut */
export function createFoldable({
  settings,
  meaning,
  folding,
}: Parts): (asked: Asked, format: Format) => FoldablePage | undefined {
  /** Pages that were requested before. A known target always has the same query object (query/known-targets.ts). */
  const pages = new WeakMap<PagedQuery, FoldablePage>();

  return function foldable({ query, key }, format) {
    if (settings().fold === "off" || !isPaged(query)) return undefined;
    const limit = meaning.limitOf(query);
    if (limit === undefined) return undefined;
    const found = pages.get(query);
    const known = found?.key === key && found.format === format ? found : undefined;
    const search = known?.search ?? searchKey(query, format);
    const size = folding.sizeOf(search, query.resource);
    if (size === undefined) return undefined;
    if (known?.limit === limit && known.size === size) return known;
    const { offset } = query;
    const offsets = new Set([0, blockAt(offset, size).offset]);
    const blocks = [...offsets].map((at) => blockOf(query, format, { offset: at, limit: size }));
    const isImplied = meaning.isSample(query);
    const page = { query, key, format, search, size, isImplied, limit, offset, blocks, keptAs: undefined };
    pages.set(query, page);
    return page;
  };
}

/** @returns a function that chooses the block to cut a page from; `undefined` if the page must be fetched by itself */
export function createChoose({ peek, cutter }: Parts): (page: FoldablePage) => Promise<Block | undefined> {
  /** The index of a cached block. It may be out of date, so it is only a hint. */
  async function hint({ asked, stretch }: Block, query: PagedQuery): Promise<BlockIndex | undefined> {
    const entry = await peek(asked.key);
    if (entry?.status !== 200) return undefined;
    const index = await cutter.indexOf(entry, query, stretch);
    return typeof index === "string" ? undefined : index;
  }

  return async function choose(page) {
    const { query, format, size, offset } = page;
    if (offset >= size) {
      const first = blockOf(query, format, { offset: 0, limit: size });
      const known = await hint(first, query);
      if (known !== undefined && known.totalCount <= offset) return first;
    }
    const around = blockAround(page, size);
    if (around !== undefined) return blockOf(query, format, around);
    // The page extends into the next block, which may be empty.
    const block = blockOf(query, format, blockAt(offset, size));
    const known = await hint(block, query);
    return known !== undefined && holdsPage(known, page) ? block : undefined;
  };
}

/**
 * The keys of the blocks from which a page may have been cut: of every size, because another replica may use a smaller one,
 * and with the first block, which shows where the results end.
 */
export function blockKeysOf(query: PagedQuery, format: Format, largest: number): readonly string[] {
  const keys = sizesFrom(largest).flatMap((size) =>
    [blockAt(query.offset, size), blockAt(0, size)].map(
      (stretch) => blockOf(query, format, stretch).asked.key,
    ),
  );
  return [...new Set(keys)];
}

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
}

/** @returns a function that returns the page of a question; `undefined` if that page may not be cut */
export function createFoldable({
  settings,
  meaning,
  folding,
}: Parts): (asked: Asked, format: Format) => FoldablePage | undefined {
  /** A target that is requested again has the same query object (query/known-targets.ts). */
  const searches = new WeakMap<PagedQuery, { readonly format: Format; readonly search: string }>();

  function searchOf(query: PagedQuery, format: Format): string {
    const known = searches.get(query);
    if (known?.format === format) return known.search;
    const search = searchKey(query, format);
    searches.set(query, { format, search });
    return search;
  }

  return function foldable({ query, key }, format) {
    if (settings().fold === "off" || !isPaged(query)) return undefined;
    const limit = meaning.limitOf(query);
    if (limit === undefined) return undefined;
    const search = searchOf(query, format);
    const size = folding.sizeOf(search, query.resource);
    if (size === undefined) return undefined;
    const isImplied = meaning.isSample(query);
    return { query, key, format, search, size, isImplied, limit, offset: query.offset };
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

/** @returns the blocks that a page may have been cut from before: the block that it begins in, and the first block */
export function createChooseAtOnce(): (page: FoldablePage) => readonly Block[] {
  const known = new WeakMap<
    PagedQuery,
    Pick<FoldablePage, "size" | "format"> & { blocks: readonly Block[] }
  >();
  return function chooseAtOnce({ query, format, size, offset }) {
    const before = known.get(query);
    if (before !== undefined && before.size === size && before.format === format) return before.blocks;
    // Beyond the last record, the first block proves that the page is empty.
    const offsets = new Set([0, blockAt(offset, size).offset]);
    const blocks = [...offsets].map((at) => blockOf(query, format, { offset: at, limit: size }));
    known.set(query, { size, format, blocks });
    return blocks;
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

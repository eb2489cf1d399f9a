/** Which pages may be cut from a block, and from which block. */
import type { Format } from "../interface/media-types.ts";
import type { Entry } from "../cache/entry.ts";
import type { ParsedQuery } from "../query/query.ts";
import { blockAround, blockAt, type BlockIndex } from "./block-index.ts";
import { holdsPage } from "./cut-page.ts";
import type { PageEntries, Page } from "./page-entries.ts";
import type { LimitDefaults } from "./limit-defaults.ts";
import type { PageByPage } from "./page-by-page.ts";
import { type Block, blockOf, isPaged, type PagedQuery, searchKey } from "./search.ts";

/** A page that may be cut, of a search in one format. */
export interface CuttablePage extends Page {
  readonly query: PagedQuery;
  readonly search: string;
  /**
   * The blocks that the page may have been cut from before: the first block, which proves that a page beyond the last
   * record is empty, and the block that the page begins in, if that is another one.
   */
  readonly blocks: ReturnType<typeof blocksOf>;
}

/** @returns a function that returns the page of a question; `undefined` if that page may not be cut */
export function createCuttable(
  isOn: () => boolean,
  defaults: Pick<LimitDefaults, "limitOf">,
  pageByPage: Pick<PageByPage, "has">,
): (asked: ParsedQuery, format: Format) => CuttablePage | undefined {
  /** Pages that were requested before. A known target always has the same query object (query/known-targets.ts). */
  const pages = new WeakMap<PagedQuery, CuttablePage>();

  return function cuttable({ query, key }, format) {
    if (!isOn() || !isPaged(query)) return undefined;
    const limit = defaults.limitOf(query);
    if (limit === undefined) return undefined;
    let page = pages.get(query);
    if (page?.key !== key || page.limit !== limit) {
      const { offset } = query;
      const search = searchKey(query, format);
      const blocks = blocksOf(query, format);
      page = { query, key, search, limit, offset, blocks, keptAs: undefined };
      pages.set(query, page);
    }
    return pageByPage.has(page.search, query.resource) ? undefined : page;
  };
}

/** @returns the first block of a search, and the block that a page begins in, if that is another one */
export function blocksOf(query: PagedQuery, format: Format): readonly [Block] | readonly [Block, Block] {
  const [first, own] = [blockOf(query, format, blockAt(0)), blockAt(query.offset)];
  return own.offset === 0 ? [first] : [first, blockOf(query, format, own)];
}

/** @returns the block to cut a page from; `undefined` if the page must be fetched by itself */
export async function chooseBlock(
  page: CuttablePage,
  peek: (key: string) => Promise<Entry | undefined>,
  pageEntries: Pick<PageEntries, "indexOf">,
): Promise<Block | undefined> {
  /** The index of a cached block. It may be out of date, so it is only a hint. */
  async function hint(block: Block): Promise<BlockIndex | undefined> {
    const entry = await peek(block.key);
    const index = entry?.status === 200 ? await pageEntries.indexOf(entry, block) : undefined;
    return typeof index === "string" ? undefined : index;
  }

  const [first, own = first] = page.blocks;
  const known = own === first ? undefined : await hint(first);
  if (known !== undefined && known.totalCount <= page.offset) return first;
  if (blockAround(page) !== undefined) return own;
  // The page extends into the next block, which may be empty.
  const index = await hint(own);
  return index !== undefined && holdsPage(index, page) ? own : undefined;
}

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
  readonly search: string;
  readonly format: Format;
  /**
   * The blocks that the page may have been cut from before: the first block, which proves that a page beyond the last
   * record is empty, and the block that the page begins in.
   */
  readonly blocks: readonly Block[];
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
    const found = pages.get(query);
    const known = found?.key === key && found.format === format ? found : undefined;
    const search = known?.search ?? searchKey(query, format);
    if (pageByPage.has(search, query.resource)) return undefined;
    if (known?.limit === limit) return known;
    const { offset } = query;
    const blocks = blocksOf(query, format);
    const page = { query, key, format, search, limit, offset, blocks, keptAs: undefined };
    pages.set(query, page);
    return page;
  };
}

/** @returns the first block of a search, and the block that a page begins in */
export function blocksOf(query: PagedQuery, format: Format): readonly Block[] {
  const offsets = new Set([0, blockAt(query.offset).offset]);
  return [...offsets].map((offset) => blockOf(query, format, blockAt(offset)));
}

/** @returns the block to cut a page from; `undefined` if the page must be fetched by itself */
export async function chooseBlock(
  { query, offset, limit, blocks }: CuttablePage,
  peek: (key: string) => Promise<Entry | undefined>,
  pageEntries: Pick<PageEntries, "indexOf">,
): Promise<Block | undefined> {
  /** The index of a cached block. It may be out of date, so it is only a hint. */
  async function hint({ asked, stretch }: Block): Promise<BlockIndex | undefined> {
    const entry = await peek(asked.key);
    const index = entry?.status === 200 ? await pageEntries.indexOf(entry, query, stretch) : undefined;
    return typeof index === "string" ? undefined : index;
  }

  const [first, block] = [blocks[0], blocks.at(-1)];
  if (first === undefined || block === undefined) return undefined;
  const known = block === first ? undefined : await hint(first);
  if (known !== undefined && known.totalCount <= offset) return first;
  if (blockAround({ offset, limit }) !== undefined) return block;
  // The page extends into the next block, which may be empty.
  const index = await hint(block);
  return index !== undefined && holdsPage(index, { offset, limit }) ? block : undefined;
}

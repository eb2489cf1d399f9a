/**
 * The searches whose whole results are cached, so that narrower ones can be computed from them.
 *
 * Blocks share no record, so it would not be noticed that two blocks show two states of the upstream. A search of several
 * blocks counts only if its first block was the same before and after the others were fetched.
 */
import type { Format } from "../../interface/media-types.ts";
import type { Clock } from "../../process/clock.ts";
import type { Pair } from "../../query/query.ts";
import type { Entry } from "../../types.ts";
import type { BlockIndex } from "../block-index.ts";
import type { Cutter } from "../cutter.ts";
import { type Block, blockOf, type PagedQuery, searchKey } from "../search.ts";
import { filterTest, type FilterTest } from "./filters.ts";

/** A cached, fresh block. */
export interface CachedBlock {
  readonly block: Block;
  readonly entry: Entry;
  readonly index: BlockIndex;
}

/** A search that was seen in blocks. */
export interface SeenSearch {
  readonly search: string;
  readonly query: PagedQuery;
  readonly format: Format;
  /** The size of its blocks. */
  readonly size: number;
  /** By offset: what this process fetched, and when. Times are counted in steps. */
  readonly fetched: Map<number, FetchedContent>;
}

/** A block's content, and when it was fetched, in steps. */
interface FetchedContent {
  readonly etag: string;
  /** When the first fetch that returned it began. */
  readonly begunAt: number;
  readonly endedAt: number;
  /** When the latest fetch that returned it began. */
  readonly confirmedAt: number;
}

/** A broader search, and the filters that the narrower one adds. */
export interface Broader {
  readonly seen: SeenSearch;
  readonly added: readonly FilterTest[];
}

/** `first-block`: the search becomes whole if its first block is fetched again and has not changed. */
type Wholeness = "whole" | "first-block" | "not-whole";

export interface Sources {
  /** @returns the number of a new step */
  readonly begin: () => number;
  /** A block of a search was seen. @param begun the step at which this process began to fetch it, if it did */
  readonly saw: (block: Block, entry: Entry, of: Omit<SeenSearch, "fetched">, begun?: number) => void;
  /** Searches with fewer filters than this one, the narrowest first. */
  readonly broaderThan: (query: PagedQuery, format: Format) => readonly Broader[];
  /** All blocks of a search, if they are cached and fresh. */
  readonly blocksOf: (seen: SeenSearch) => Promise<readonly CachedBlock[] | undefined>;
  readonly wholeness: (seen: SeenSearch, blocks: readonly CachedBlock[]) => Wholeness;
}

export interface SourcesOptions {
  readonly peek: (key: string) => Promise<Entry | undefined>;
  readonly cutter: Pick<Cutter, "indexOf">;
  readonly clock: Pick<Clock, "now">;
}

/** The most searches that are remembered. */
const MOST_SEARCHES = 10_000;
/** Larger results are not used. */
const MOST_BLOCKS = 20;
/** The most filters of a search: each one doubles the number of broader searches. */
const MOST_FILTERS = 6;

export function createSources({ peek, cutter, clock }: SourcesOptions): Sources {
  const searches = new Map<string, SeenSearch>();
  let step = 0;

  function remembered(of: Omit<SeenSearch, "fetched">): SeenSearch {
    const known = searches.get(of.search);
    const seen = known?.size === of.size ? known : { ...of, fetched: new Map<number, FetchedContent>() };
    // Delete first, so that the map stays in order of age.
    searches.delete(of.search);
    searches.set(of.search, seen);
    if (searches.size > MOST_SEARCHES) searches.delete(searches.keys().next().value ?? "");
    return seen;
  }

  async function cached(seen: SeenSearch, offset: number): Promise<CachedBlock | undefined> {
    const block = blockOf(seen.query, seen.format, { offset, limit: seen.size });
    const entry = await peek(block.asked.key);
    if (entry?.status !== 200 || clock.now() >= entry.freshUntil) return undefined;
    const index = await cutter.indexOf(entry, seen.query, block.stretch);
    return typeof index === "string" ? undefined : { block, entry, index };
  }

  return {
    begin: () => (step += 1),
    saw({ stretch: { offset } }, { etag }, of, begun) {
      const { fetched } = remembered(of);
      if (begun === undefined) return;
      const known = fetched.get(offset);
      const endedAt = (step += 1);
      fetched.set(
        offset,
        known?.etag === etag
          ? { ...known, confirmedAt: begun }
          : { etag, begunAt: begun, endedAt, confirmedAt: begun },
      );
    },
    broaderThan: (query, format) =>
      lessFiltered(query).flatMap(({ filters, added }) => {
        const seen = searches.get(searchKey({ ...query, filters }, format));
        return seen === undefined ? [] : [{ seen, added }];
      }),
    async blocksOf(seen) {
      const first = await cached(seen, 0);
      if (first === undefined) return undefined;
      const { totalCount } = first.index;
      if (totalCount > MOST_BLOCKS * seen.size) return undefined;
      const blocks = [first];
      for (let offset = seen.size; offset < totalCount; offset += seen.size) {
        const block = await cached(seen, offset);
        if (block?.index.totalCount !== totalCount) return undefined;
        blocks.push(block);
      }
      return blocks;
    },
    wholeness,
  };
}

function wholeness({ fetched }: SeenSearch, [first, ...others]: readonly CachedBlock[]): Wholeness {
  if (first === undefined) return "not-whole";
  if (others.length === 0) return "whole";
  const contentOf = ({ block, entry }: CachedBlock): FetchedContent | undefined => {
    const content = fetched.get(block.stretch.offset);
    return content?.etag === entry.etag ? content : undefined;
  };
  const [before, rest] = [contentOf(first), others.map(contentOf)];
  if (before === undefined) return "not-whole";
  const isLater = rest.every((content) => content !== undefined && before.endedAt <= content.begunAt);
  if (!isLater) return "not-whole";
  const isConfirmed = rest.every((content) => content !== undefined && content.endedAt <= before.confirmedAt);
  return isConfirmed ? "whole" : "first-block";
}

interface LessFiltered {
  readonly filters: readonly Pair[];
  readonly added: readonly FilterTest[];
}

/** @returns every search that lacks one or more of the filters that a record alone decides */
function lessFiltered({ filters }: PagedQuery): LessFiltered[] {
  // The upstream may order the results of a text search by relevance.
  if (filters.some(([name]) => name === "q")) return [];
  const tests = filters.flatMap(([name, value]) => filterTest(name, value) ?? []);
  if (tests.length > MOST_FILTERS) return [];
  return Array.from({ length: 2 ** tests.length - 1 }, (_, choice) => {
    const added = tests.filter((_test, nth) => ((choice + 1) >> nth) % 2 === 1);
    const names = new Set(added.map(({ name }) => name));
    return { added, filters: filters.filter(([name]) => !names.has(name)) };
  }).toSorted((one, other) => one.added.length - other.added.length);
}

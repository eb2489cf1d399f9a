/**
 * Learns how the upstream filters. It compares answers that were fetched anyway with the answers that would have been
 * computed from a cached broader search.
 */
import { hash } from "node:crypto";
import { setImmediate } from "node:timers/promises";

import type { Entry, Question } from "../../types.ts";
import type { BlockIndex } from "../block-index.ts";
import type { FoldablePage } from "../choose.ts";
import type { Block, PagedQuery } from "../search.ts";
import type { BlockBytes } from "./body.ts";
import { compare, type Comparison } from "./compare.ts";
import type { DeriveParts } from "./parts.ts";
import type { Broader, CachedBlock, SeenSearch } from "./sources.ts";
import type { Sample } from "./trust.ts";

/** A block of a search, as the cache stage returned it. */
export interface SeenBlock {
  readonly block: Block;
  readonly entry: Entry;
  readonly index: BlockIndex;
  /** The step at which this process began to fetch it; absent if it was cached. */
  readonly begun?: number | undefined;
}

export interface Learn {
  /** Notes a block. If it was fetched, compares it in the background. */
  readonly saw: (question: Question, page: FoldablePage, seen: SeenBlock) => void;
  /** Compares all results of a search with those computed from a broader search. */
  readonly compareWith: (question: Question, page: FoldablePage, seen: SeenBlock) => Promise<void>;
  /** Fetches a block of a broader search again, in the background, while enough budget is left. */
  readonly fetchAgain: (question: Question, of: SeenSearch, cached: CachedBlock) => Promise<void>;
}

/** Comparisons spend budget only while at least this part of it is left. */
export const CHECK_ABOVE = 0.5;

export function includeUnsetOf({ filters }: PagedQuery): string {
  return filters.find(([name]) => name === "includeUnset")?.[1] ?? "1";
}

export function createLearn(parts: DeriveParts): Learn {
  const { cutter, sources, suspicions, trust, settings } = parts;
  const report = createReport(parts);
  const resolve = createResolve(parts, report);
  const fetchAgain = createFetchAgain(parts, resolve);
  const inBackground = createInBackground(parts);
  const bytesOf = createBytesOf(cutter);

  /** The narrowest broader search whose results are all known. */
  async function wholeBroader({
    query,
    format,
  }: FoldablePage): Promise<(Broader & { blocks: readonly CachedBlock[] }) | undefined> {
    for (const broader of sources.broaderThan(query, format)) {
      const blocks = await sources.blocksOf(broader.seen);
      if (blocks !== undefined && sources.wholeness(broader.seen, blocks) === "whole")
        return { ...broader, blocks };
    }
    return undefined;
  }

  async function compareWith(question: Question, page: FoldablePage, seen: SeenBlock): Promise<void> {
    const { query, search } = page;
    // Only a complete result shows which records are missing from it.
    if (seen.block.stretch.offset > 0 || seen.index.totalCount > seen.index.ids.length) return;
    const broader = await wholeBroader(page);
    if (broader === undefined) return;
    // Read what other replicas learned first, so that contradictions with it are noticed.
    await trust.isUpToDate();
    const comparison = compare({
      resource: query.resource,
      includeUnset: includeUnsetOf(query),
      narrower: await bytesOf(seen),
      broader: await Promise.all(broader.blocks.map(bytesOf)),
      added: broader.added,
      id: hash("sha256", `${search} ${seen.entry.etag}`, "base64url").slice(0, 10),
    });
    if (comparison === undefined) return;
    suspicions.add(broader.seen.search, comparison.suspicions, sources.begin(), seen.entry);
    report(query, broader.seen.search, comparison);
    if (settings().mode !== "on") return;
    const offsets = new Set(comparison.suspicions.map(({ offset }) => offset));
    for (const cached of broader.blocks.filter(({ block }) => offsets.has(block.stretch.offset)))
      await fetchAgain(question, broader.seen, cached);
  }

  return {
    fetchAgain,
    compareWith,
    saw(question, page, seen) {
      sources.saw(seen.block, seen.entry, page, seen.begun);
      if (seen.begun === undefined && !suspicions.hasAny(page.search)) return;
      inBackground(question, async () => {
        // Serves waiting callers first.
        await setImmediate();
        await resolve(page, seen);
        if (seen.begun !== undefined) await compareWith(question, page, seen);
      });
    },
  };
}

type BytesOf = (seen: Pick<SeenBlock, "entry" | "index">) => Promise<BlockBytes>;

function createBytesOf(cutter: DeriveParts["cutter"]): BytesOf {
  return async ({ entry, index }) => ({ body: await cutter.bytesOf(entry), index });
}

/** Checks whether a block confirms suspicions. */
type Resolve = (of: Pick<SeenSearch, "search" | "query">, seen: SeenBlock) => Promise<void>;

function createResolve({ cutter, suspicions }: DeriveParts, report: Report): Resolve {
  const bytesOf = createBytesOf(cutter);
  return async function resolve({ search, query }, seen) {
    const samples = suspicions.resolve(search, seen.entry, await bytesOf(seen), seen.begun);
    if (samples.length > 0) report(query, search, { samples, suspicions: [] });
  };
}

function createFetchAgain(parts: DeriveParts, resolve: Resolve): Learn["fetchAgain"] {
  const { budgetLeft, cutter, peek, refresh, sources } = parts;
  const fetching = new Set<string>();

  async function fetchAgain(
    question: Question,
    of: SeenSearch,
    { block, entry }: CachedBlock,
  ): Promise<void> {
    const begun = sources.begin();
    const end = await refresh({ request: question.request, ...block.asked }, entry, "refresh");
    const now = end === "refreshed" ? await peek(block.asked.key) : undefined;
    if (now?.status !== 200) return;
    const index = await cutter.indexOf(now, of.query, block.stretch);
    if (typeof index === "string") return;
    sources.saw(block, now, of, begun);
    await resolve(of, { block, entry: now, index, begun });
  }

  return async function fetchAgainOnce(question, of, cached) {
    const { key } = cached.block.asked;
    if (budgetLeft(of.query.resource) < CHECK_ABOVE || fetching.has(key)) return;
    fetching.add(key);
    await fetchAgain(question, of, cached).finally(() => fetching.delete(key));
  };
}

/** @returns a function that runs work in the background */
export function createInBackground({
  observer,
}: Pick<DeriveParts, "observer">): (question: Question, work: () => Promise<void>) => void {
  return (question, work) => {
    work().catch((error: unknown) =>
      observer.error("An answer could not be compared. This is a bug in the gateway.", {
        query: question.canonicalQuery,
        err: error,
      }),
    );
  };
}

/** Adds the samples, counts the comparison, and logs contradictions for operators. */
type Report = (query: PagedQuery, broader: string, comparison: Comparison) => void;

function createReport({ trust, observer }: DeriveParts): Report {
  return function report({ resource }, broader, { samples, suspicions }) {
    const contradictions = new Set(trust.add(samples));
    const wrong = samples.filter((sample) => contradictions.has(sample) || isNeverRight(sample));
    if (wrong.length > 0)
      observer.error("The upstream does not filter as computed. The gateway no longer uses this filter.", {
        traits: wrong.map(({ trait }) => trait),
        broader,
      });
    const agrees = samples.length > 0 && suspicions.length === 0;
    observer.derivedChecked(resource, wrong.length > 0 ? "differed" : agrees ? "agreed" : "unknown");
  };
}

/** Whether a sample contradicts the interface. At a bound, and for a missing value, the interface allows both signs. */
function isNeverRight({ trait, sign }: Sample): boolean {
  return sign === "-" && (trait.endsWith(" bounds") || trait.includes(" echo "));
}

/**
 * Learns how the upstream filters, from answers that were fetched anyway: compares them with what would have been computed
 * from a broader search that is held.
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
import type { Broader, HeldBlock, SeenSearch } from "./sources.ts";
import type { Sample } from "./trust.ts";

/** A block of a search, as the cache stage answered. */
export interface SeenBlock {
  readonly block: Block;
  readonly entry: Entry;
  readonly index: BlockIndex;
  /** The step at which this process began to fetch it, if it did. */
  readonly begun?: number | undefined;
}

export interface Learn {
  /** Takes note of a block; if it was fetched, compares it in the background. */
  readonly saw: (question: Question, page: FoldablePage, seen: SeenBlock) => void;
  /** Compares all of a search's results with what a broader search says. */
  readonly compareWith: (question: Question, page: FoldablePage, seen: SeenBlock) => Promise<void>;
  /** Fetches a block of a broader search again, in the background, while there is budget to spare. */
  readonly fetchAgain: (question: Question, of: SeenSearch, held: HeldBlock) => Promise<void>;
}

/** Below this part of the budget nothing is spent on checking. */
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

  /** The narrowest broader search that counts. */
  async function wholeBroader({
    query,
    format,
  }: FoldablePage): Promise<(Broader & { blocks: readonly HeldBlock[] }) | undefined> {
    for (const broader of sources.broaderThan(query, format)) {
      const blocks = await sources.blocksOf(broader.seen);
      if (blocks !== undefined && sources.wholeness(broader.seen, blocks) === "whole")
        return { ...broader, blocks };
    }
    return undefined;
  }

  async function compareWith(question: Question, page: FoldablePage, seen: SeenBlock): Promise<void> {
    const { query, search } = page;
    // Only all of a result shows which records are missing from it.
    if (seen.block.stretch.offset > 0 || seen.index.totalCount > seen.index.ids.length) return;
    const broader = await wholeBroader(page);
    if (broader === undefined) return;
    // What other replicas learned may be contradicted now. While the store is out of order, it is found out later.
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
    for (const held of broader.blocks.filter(({ block }) => offsets.has(block.stretch.offset)))
      await fetchAgain(question, broader.seen, held);
  }

  return {
    fetchAgain,
    compareWith,
    saw(question, page, seen) {
      sources.saw(seen.block, seen.entry, page, seen.begun);
      if (seen.begun === undefined && !suspicions.hasAny(page.search)) return;
      inBackground(question, async () => {
        // Callers first.
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

/** Looks whether a block that was seen confirms what was suspected. */
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

  async function fetchAgain(question: Question, of: SeenSearch, { block, entry }: HeldBlock): Promise<void> {
    const begun = sources.begin();
    const end = await refresh({ request: question.request, ...block.asked }, entry, "refresh");
    const now = end === "refreshed" ? await peek(block.asked.key) : undefined;
    if (now?.status !== 200) return;
    const index = await cutter.indexOf(now, of.query, block.stretch);
    if (typeof index === "string") return;
    sources.saw(block, now, of, begun);
    await resolve(of, { block, entry: now, index, begun });
  }

  return async function fetchAgainOnce(question, of, held) {
    const { key } = held.block.asked;
    if (budgetLeft(of.query.resource) < CHECK_ABOVE || fetching.has(key)) return;
    fetching.add(key);
    await fetchAgain(question, of, held).finally(() => fetching.delete(key));
  };
}

/** @returns what does work that nobody waits for */
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

/** Adds samples to what is known, counts the comparison and tells operators of contradictions. */
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

/** Of bounds and the form of an echo there is one right way; at a bound and without a value there are two. */
function isNeverRight({ trait, sign }: Sample): boolean {
  return sign === "-" && (trait.endsWith(" bounds") || trait.includes(" echo "));
}

/**
 * Derived answers: a narrower search is computed from cached, fresh blocks of a broader one.
 *
 * The gateway learns from the upstream's answers how it filters (learn.ts), and uses only filters that it knows well. If
 * anything is uncertain, nothing is computed, and the question goes to the cache stage. See docs/pages.md.
 */
import type { Answer, Question } from "../../types.ts";
import { blockAround } from "../block-index.ts";
import type { FoldablePage } from "../choose.ts";
import { createRecent } from "../recent.ts";
import { type Asked, blockOf } from "../search.ts";
import { compute, type Computed, mayUse, type SignOf } from "./compute.ts";
import { createInBackground, createLearn, includeUnsetOf, type Learn, type SeenBlock } from "./learn.ts";
import type { DeriveOptions, DeriveParts } from "./parts.ts";
import { createServe, type Result } from "./serve.ts";
import { createSources, type CachedBlock } from "./sources.ts";
import { createSuspicions } from "./suspicions.ts";
import { createTrust } from "./trust.ts";

export interface Derive {
  /** @returns the answer to a question for a page, if it can be computed */
  readonly answer: (question: Question, page: FoldablePage) => Promise<Answer | undefined>;
  /** @returns the answer without waiting, if the page was computed before and memory still has it and its sources */
  readonly answerAtOnce: (question: Question, page: FoldablePage) => Answer | undefined;
  /** @returns the first block of the broader search from which a page would be computed now */
  readonly sourceOf: (page: FoldablePage) => Promise<Asked | undefined>;
  /** @returns a step number. Pass it to `saw` with a block that is fetched after this call. */
  readonly begin: () => number;
  readonly saw: (question: Question, page: FoldablePage, seen: SeenBlock) => void;
}

/**
 * Computes the whole result of a page's search, if everything that it needs is known.
 * @param question the caller's question; absent if an operator inspects the page
 */
type Find = (page: FoldablePage, question?: Question) => Promise<Result | undefined>;

export function createDerive(options: DeriveOptions): Derive {
  const { settings, clock, peek, memory } = options;
  const sources = createSources(options);
  const suspicions = createSuspicions(clock);
  const trust = createTrust({ ...options, minSamples: () => settings().minSamples });
  const parts: DeriveParts = { ...options, sources, suspicions, trust };
  const learn = createLearn(parts);
  const signOf: SignOf = (trait) => (suspicions.isSuspect(trait) ? undefined : trust.signOf(trait));
  const find = createFind(parts, learn, signOf);
  const serve = createServe(parts, learn, signOf);

  /** The key of the page's own block, or of the page itself. */
  function ownKey(page: FoldablePage): string {
    const around = blockAround(page, page.size);
    return around === undefined ? page.key : blockOf(page.query, page.format, around).asked.key;
  }
  /** Whether the page's own block, or the page itself, is cached and fresh. Then computing it would save nothing. */
  async function isCached(page: FoldablePage): Promise<boolean> {
    const cached = await peek(ownKey(page));
    return cached !== undefined && clock.now() < cached.freshUntil;
  }
  async function mayDerive(page: FoldablePage): Promise<boolean> {
    if (settings().mode !== "on" || sources.broaderThan(page.query, page.format).length === 0) return false;
    return !(await isCached(page)) && (await trust.isUpToDate());
  }

  return {
    begin: sources.begin,
    saw(question, page, seen) {
      if (settings().mode !== "off") learn.saw(question, page, seen);
    },
    async answer(question, page) {
      if (!(await mayDerive(page))) return undefined;
      const result = await find(page, question);
      return result && (await serve.answer(question, page, result));
    },
    answerAtOnce(question, page) {
      if (settings().mode !== "on" || !serve.isKnown(page)) return undefined;
      if (memory.find(ownKey(page)) !== undefined || !trust.isUpToDateNow()) return undefined;
      return serve.atOnce(question, page);
    },
    async sourceOf(page) {
      if (!(await mayDerive(page))) return undefined;
      return (await find(page))?.blocks[0].block.asked;
    },
  };
}

/** The limit for the most recently used results, in bytes. */
const COMPUTED_BYTES = 10 * 1024 * 1024;

function createFind(parts: DeriveParts, { fetchAgain }: Learn, signOf: SignOf): Find {
  const { cutter, sources } = parts;
  const inBackground = createInBackground(parts);
  const recent = createRecent<string, Computed>(COMPUTED_BYTES, ({ entry }) => entry.bodyBytes);

  async function computed(
    { query, search, size }: FoldablePage,
    added: Parameters<typeof compute>[0]["added"],
    blocks: readonly CachedBlock[],
  ): Promise<Computed | undefined> {
    const key = [search, ...blocks.map(({ entry }) => entry.etag)].join(" ");
    const known = recent.find(key);
    if (known !== undefined && [...known.traits].every(([trait, sign]) => signOf(trait) === sign))
      return known;
    const bytes = await Promise.all(
      blocks.map(async ({ entry, index }) => ({ body: await cutter.bytesOf(entry), index })),
    );
    const { resource } = query;
    const includeUnset = includeUnsetOf(query);
    const result = compute({ resource, includeUnset, added, blocks: bytes, size, signOf });
    if (result !== undefined) recent.keep(key, result);
    return result;
  }

  return async function find(page, question) {
    const { query, format } = page;
    const { resource } = query;
    const includeUnset = includeUnsetOf(query);
    for (const { seen, added } of sources.broaderThan(query, format)) {
      if (!mayUse({ resource, includeUnset, added, signOf })) continue;
      const blocks = await sources.blocksOf(seen);
      const [first, ...others] = blocks ?? [];
      if (blocks === undefined || first === undefined) continue;
      const wholeness = sources.wholeness(seen, blocks);
      // Confirms the first block, so that the next caller can use this search.
      if (wholeness === "first-block" && question !== undefined)
        inBackground(question, () => fetchAgain(question, seen, first));
      const result = wholeness === "whole" ? await computed(page, added, blocks) : undefined;
      if (result !== undefined) return { computed: result, blocks: [first, ...others] };
    }
    return undefined;
  };
}

/**
 * Derived answers: a narrower search is computed from cached, fresh blocks of a broader one.
 *
 * How the upstream filters is learned from its answers (learn.ts), and only well-known
 * filters are used. In doubt, nothing is computed, and the question goes to the cache stage. See docs/pages.md.
 */
import type { Answer, Entry, Question } from "../../types.ts";
import { blockAround } from "../block-index.ts";
import { blockKeysOf, type FoldablePage } from "../choose.ts";
import { createRecent } from "../recent.ts";
import { type Asked, blockOf } from "../search.ts";
import { compute, type Computed, entryFrom, mayUse, type SignOf } from "./compute.ts";
import {
  CHECK_ABOVE,
  createInBackground,
  createLearn,
  includeUnsetOf,
  type Learn,
  type SeenBlock,
} from "./learn.ts";
import type { DeriveOptions, DeriveParts } from "./parts.ts";
import { createSources, type HeldBlock } from "./sources.ts";
import { createSuspicions } from "./suspicions.ts";
import { createTrust } from "./trust.ts";

export interface Derive {
  /** @returns the answer to a question for a page, if it can be computed */
  readonly answer: (question: Question, page: FoldablePage) => Promise<Answer | undefined>;
  /** @returns what a page would be computed from now: the first block of the broader search */
  readonly sourceOf: (page: FoldablePage) => Promise<Asked | undefined>;
  /** @returns a step number. Pass it to `saw` with a block that is fetched after this call. */
  readonly begin: () => number;
  readonly saw: (question: Question, page: FoldablePage, seen: SeenBlock) => void;
}

/** A result, and the blocks that it was computed from. */
interface Result {
  readonly computed: Computed;
  readonly blocks: readonly [HeldBlock, ...HeldBlock[]];
}

/** Computes the whole result of a page's search, if everything needed is known. @param question absent in the background */
type Find = (page: FoldablePage, question?: Question) => Promise<Result | undefined>;

export function createDerive(options: DeriveOptions): Derive {
  const { settings, clock, peek } = options;
  const sources = createSources(options);
  const suspicions = createSuspicions(clock);
  const trust = createTrust({ ...options, minSamples: () => settings().minSamples });
  const parts: DeriveParts = { ...options, sources, suspicions, trust };
  const learn = createLearn(parts);
  const find = createFind(parts, learn);
  const serve = createServe(parts, learn);

  /** Whether the page's own block, or the page itself, is cached and fresh. Computing it would then save nothing. */
  async function isCached(page: FoldablePage): Promise<boolean> {
    const around = blockAround(page, page.size);
    const key = around === undefined ? page.key : blockOf(page.query, page.format, around).asked.key;
    const cached = await peek(key);
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
      return result && (await serve(question, page, result));
    },
    async sourceOf(page) {
      if (!(await mayDerive(page))) return undefined;
      return (await find(page))?.blocks[0].block.asked;
    },
  };
}

/** The limit for the most recently used results, in bytes. */
const COMPUTED_BYTES = 10 * 1024 * 1024;

function createFind(parts: DeriveParts, { fetchAgain }: Learn): Find {
  const { cutter, sources, suspicions, trust } = parts;
  const inBackground = createInBackground(parts);
  const recent = createRecent<string, Computed>(COMPUTED_BYTES, ({ entry }) => entry.bodyBytes);
  const signOf: SignOf = (trait) => (suspicions.isSuspect(trait) ? undefined : trust.signOf(trait));

  async function computed(
    { query, search, size }: FoldablePage,
    added: Parameters<typeof compute>[0]["added"],
    blocks: readonly HeldBlock[],
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
      // So that the next caller can use it.
      if (wholeness === "first-block" && question !== undefined)
        inBackground(question, () => fetchAgain(question, seen, first));
      const result = wholeness === "whole" ? await computed(page, added, blocks) : undefined;
      if (result !== undefined) return { computed: result, blocks: [first, ...others] };
    }
    return undefined;
  };
}

type Serve = (question: Question, page: FoldablePage, result: Result) => Promise<Answer | undefined>;

function createServe(parts: DeriveParts, { compareWith }: Learn): Serve {
  const { askAtOnce, cutter, isPurged, largest, random, settings, budgetLeft } = parts;
  const { refresh, peek, sources } = parts;
  const inBackground = createInBackground(parts);

  /** Fetches the search by itself, and compares. */
  async function check(question: Question, page: FoldablePage): Promise<void> {
    const block = blockOf(page.query, page.format, { offset: 0, limit: page.size });
    const { key } = block.asked;
    const begun = sources.begin();
    const end = await refresh({ request: question.request, ...block.asked }, await peek(key), "refresh");
    const entry = end === "refreshed" ? await peek(key) : undefined;
    if (entry?.status !== 200) return;
    const index = await cutter.indexOf(entry, page.query, block.stretch);
    if (typeof index !== "string") await compareWith(question, page, { block, entry, index, begun });
  }

  /** Each source as this caller's request would be answered with it; `undefined`: one of them may not be used. */
  function answersOf({ request }: Question, blocks: readonly HeldBlock[]): Answer[] | undefined {
    const answers = blocks.flatMap(({ block, entry }) => {
      const answer = askAtOnce({ request, ...block.asked });
      return answer?.outcome === "hit" && answer.entry.etag === entry.etag ? [answer] : [];
    });
    return answers.length === blocks.length ? answers : undefined;
  }

  return async function serve(question, page, { computed, blocks }) {
    const answers = answersOf(question, blocks);
    const [first, ...others] = answers ?? [];
    if (first === undefined) return undefined;
    const result: Entry = entryFrom(computed, [first.entry, ...others.map(({ entry }) => entry)]);
    const { query, format } = page;
    const keys = [page.key, ...blockKeysOf(query, format, largest())];
    // A caller that purged the search expects a fetched answer.
    if (keys.some((key) => isPurged(key, result))) return undefined;
    const { entry, keptAs, isNew } = await cutter.entryOf(page, result, computed.index, true);
    const isChosen = random.fraction() < settings().sample && budgetLeft(query.resource) >= CHECK_ABOVE;
    if (isChosen) inBackground(question, () => check(question, page));
    const note = [first, ...others].find((answer) => answer.note !== undefined)?.note;
    return { ...first, note, entry, keptAs, ...(isNew && { saved: "derived" as const }) };
  };
}

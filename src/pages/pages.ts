/**
 * Pages from blocks: the stage between understanding a request and the cache.
 *
 * A page of a search is cut from a block: a larger part of the same search's results, which contains many pages. To
 * the cache stage, a block is a question like any other. So flights, budget, stores, purges, freshness and the
 * caller's cache directives apply to it there. See docs/pages.md.
 */
import type { Format } from "../interface/media-types.ts";
import { blockKeysOf, createChoose, createFoldable } from "./choose.ts";
import { createAskBlock, createAskExactly, createCutFrom, createFindCut } from "./cut-from.ts";
import { createCutter } from "./cutter.ts";
import { createDerive } from "./derive/derive.ts";
import { createFolding } from "./folding.ts";
import { createLatency } from "./latency.ts";
import { createLimitMeaning } from "./limit-meaning.ts";
import type { Question } from "../types.ts";
import type { Ask, AskAtOnce, PagesOptions, Parts } from "./parts.ts";
import { type Asked, isPaged } from "./search.ts";
import { createVerify } from "./verify.ts";

export interface Pages {
  readonly answer: Ask;
  /** Answers from memory: with a page that was cut or computed before, or with the cache stage's answer. */
  readonly answerAtOnce: AskAtOnce;
  /**
   * The question whose answer would be used now: that of the block, or the question itself. `derivedFrom`: the block of a
   * broader search from which the answer would be computed.
   */
  readonly sourceOf: (asked: Asked, format: Format) => Promise<Asked & { readonly derivedFrom?: string }>;
  /** The question to fetch: that of the block, or the question itself. The request stays. */
  readonly questionFor: (question: Question) => Promise<Question>;
  /** Keys of all blocks from which a question's answer may have been cut. */
  readonly blockKeysOf: (asked: Asked, format: Format) => readonly string[];
}

export function createPages(options: PagesOptions): Pages {
  const { settings, transcode, peek } = options;
  const cutter = createCutter(options);
  const parts: Parts = {
    ...options,
    cutter,
    derive: createDerive({ ...options, ...options.derive, cutter, largest: () => settings().block }),
    folding: createFolding({ ...options, largest: () => settings().block }),
    latency: createLatency(() => settings().maxExtraLatencyMs),
    meaning: createLimitMeaning(options),
    verify: createVerify({ ...options, bodyOf: (entry) => transcode(entry, "identity") }),
  };
  const { derive, latency } = parts;
  const foldable = createFoldable(parts);
  const choose = createChoose(parts);
  const askExactly = createAskExactly(parts);
  const askBlock = createAskBlock(parts, askExactly);
  const cutFrom = createCutFrom(parts, askExactly);
  const findCut = createFindCut(parts);

  async function sourceOf(asked: Asked, format: Format): Promise<Asked> {
    const page = foldable(asked, format);
    const block = page && (await choose(page));
    return block?.asked ?? asked;
  }

  return {
    async answer(question) {
      const page = foldable(question, question.request.format);
      if (page === undefined) return await askExactly(question);
      const derived = await derive.answer(question, page);
      if (derived !== undefined) return derived;
      const block = await choose(page);
      if (block === undefined) return await askExactly(question);
      if (block.asked.key === question.key) return await askBlock(question, page, block);
      const isFirst = latency.isFirstOfSlow(page.search, question.key);
      if (isFirst && (await peek(block.asked.key)) === undefined) return await askExactly(question);
      return await cutFrom(question, page, block);
    },
    answerAtOnce(question) {
      const page = foldable(question, question.request.format);
      if (page === undefined) return options.askAtOnce(question);
      const isBlock = page.blocks.some(({ asked }) => asked.key === question.key);
      if (isBlock) return options.askAtOnce(question);
      return findCut(question, page) ?? derive.answerAtOnce(question, page);
    },
    async sourceOf(asked, format) {
      const page = foldable(asked, format);
      const broader = page && (await derive.sourceOf(page));
      if (broader === undefined) return await sourceOf(asked, format);
      return { ...broader, derivedFrom: broader.canonicalQuery };
    },
    async questionFor(question) {
      const { request } = question;
      return { request, ...(await sourceOf(question, request.format)) };
    },
    blockKeysOf: ({ query }, format) =>
      isPaged(query) && settings().fold === "on" ? blockKeysOf(query, format, settings().block) : [],
  };
}

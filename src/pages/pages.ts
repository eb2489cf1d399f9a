/**
 * Pages from blocks: the stage between understanding a request and the cache.
 *
 * A page of a search is cut from a block: a larger part of the same search's results, which contains many pages. To
 * the cache stage, a block is a question like any other. So flights, budget, stores, purges, freshness and the
 * caller's cache directives apply to it there. See docs/pages.md.
 */
import type { Format } from "../interface/media-types.ts";
import type { Clock } from "../process/clock.ts";
import type { Answer } from "../cache/cache.ts";
import type { Entry } from "../cache/entry.ts";
import type { Observer } from "../telemetry/events.ts";
import type { Question } from "../query/question.ts";
import { blocksOf, createChoose, createCuttable, type CuttablePage } from "./choose-block.ts";
import { type Ask, createAskExactly, createAnswerPage } from "./answer-page.ts";
import { createPageEntries, type PageEntries, type CutterOptions } from "./page-entries.ts";
import { createLimitDefaults } from "./limit-defaults.ts";
import { createPageByPage } from "./page-by-page.ts";
import { type Asked, type Block, isPaged } from "./search.ts";
import { createVerify, type VerifyOptions } from "./verify-pages.ts";

/** Answers a question if memory has the answer and it may be served; `undefined`: call `Ask`. */
type AskAtOnce = (question: Question) => Answer | undefined;

export interface PagesOptions extends CutterOptions, Pick<VerifyOptions, "checks" | "peek" | "refresh"> {
  /** The next stage: the cache. */
  readonly ask: Ask;
  /** The next stage, from memory only. */
  readonly askAtOnce: AskAtOnce;
  /** Whether pages are cut from blocks at all. */
  readonly isOn: () => boolean;
  readonly clock: Pick<Clock, "monotonic">;
  readonly observer: Pick<Observer, "info" | "warn" | "error"> & VerifyOptions["observer"];
}

export interface Pages {
  readonly answer: Ask;
  /** Answers from memory: with a page that was cut before, or with the cache stage's answer. */
  readonly answerAtOnce: AskAtOnce;
  /** The question whose answer would be used now: that of the block, or the question itself. */
  readonly sourceOf: (asked: Asked, format: Format) => Promise<Asked>;
  /** The question to fetch: that of the block, or the question itself. The request stays. */
  readonly questionFor: (question: Question) => Promise<Question>;
  /** Keys of all blocks from which a question's answer may have been cut. */
  readonly blockKeysOf: (asked: Asked, format: Format) => readonly string[];
}

export function createPages(options: PagesOptions): Pages {
  const { ask, askAtOnce, transcode, isOn, peek } = options;
  const pageEntries = createPageEntries(options);
  const meaning = createLimitDefaults(options);
  const pageByPage = createPageByPage(options);
  const verify = createVerify({ ...options, pageEntries, pageByPage });
  const cuttable = createCuttable({ isOn, meaning, pageByPage });
  const choose = createChoose({ peek, pageEntries });

  const askExactly = createAskExactly({ ask, transcode, meaning });
  const answerPage = createAnswerPage({ ask, askExactly, pageEntries, pageByPage, verify });

  async function sourceOf(asked: Asked, format: Format): Promise<Asked> {
    const page = cuttable(asked, format);
    const block = page && (await choose(page));
    return block?.asked ?? asked;
  }

  return {
    async answer(question) {
      const page = cuttable(question, question.request.format);
      const block = page && (await choose(page));
      if (page === undefined || block === undefined || block.asked.key === question.key)
        return await askExactly(question);
      return await answerPage(question, page, block);
    },
    answerAtOnce(question) {
      const page = cuttable(question, question.request.format);
      const isItself = page === undefined || page.blocks.some(({ asked }) => asked.key === question.key);
      return isItself ? askAtOnce(question) : findCut(question, page, pageEntries, options);
    },
    sourceOf,
    async questionFor(question) {
      const { request } = question;
      return { request, ...(await sourceOf(question, request.format)) };
    },
    blockKeysOf: ({ query }, format) =>
      isPaged(query) && isOn() ? blocksOf(query, format).map(({ asked }) => asked.key) : [],
  };
}

/** @returns the page if it was cut from one of its blocks before, and memory still has the page and the block */
function findCut(
  question: Question,
  page: CuttablePage,
  pageEntries: PageEntries,
  { memory, askAtOnce }: PagesOptions,
): Answer | undefined {
  const { blocks } = page;
  const isSource = ({ asked }: Block): boolean => {
    const cached: Entry | undefined = memory.find(asked.key);
    return cached !== undefined && pageEntries.find(page, cached) !== undefined;
  };
  // Looking up a block may refresh it early. So look up only the block that the page was cut from.
  const block = blocks.length === 1 ? blocks[0] : blocks.find(isSource);
  const answer = block && askAtOnce({ request: question.request, ...block.asked });
  const cut = answer?.entry.status === 200 ? pageEntries.find(page, answer.entry) : undefined;
  return answer && cut && { ...answer, ...cut };
}

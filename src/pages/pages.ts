/**
 * Pages from blocks: the stage between understanding a request and the cache.
 *
 * A page of a search is cut from a block: a larger part of the same search's results, which contains many pages. To
 * the cache stage, a block is a question like any other. So flights, budget, stores, purges, freshness and the
 * caller's cache directives apply to it there. See docs/pages.md.
 */
import type { Answer } from "../cache/cache.ts";
import { Problem, type ProblemCode } from "../errors.ts";
import type { Format } from "../interface/media-types.ts";
import type { Clock } from "../process/clock.ts";
import type { Question } from "../query/question.ts";
import type { Observer } from "../telemetry/events.ts";
import { blockAround, type BlockIndex } from "./block-index.ts";
import { blocksOf, createChoose, createCuttable, type CuttablePage } from "./choose-block.ts";
import { holdsPage } from "./cut-page.ts";
import { createLimitDefaults, type LimitDefaults } from "./limit-defaults.ts";
import { createPageByPage, type PageByPage } from "./page-by-page.ts";
import { createPageEntries, type PageEntries, type CutterOptions } from "./page-entries.ts";
import { type Asked, type Block, blockOf, isPaged } from "./search.ts";
import { createVerify, type Verify, type VerifyOptions } from "./verify-pages.ts";

/** Answers a question; rejects with a `Problem`. Both the cache stage and this stage are such a function. */
type Ask = (question: Question) => Promise<Answer>;

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

interface Parts extends PagesOptions {
  readonly pageEntries: PageEntries;
  readonly meaning: LimitDefaults;
  readonly pageByPage: PageByPage;
  readonly verify: Verify;
}

export interface Pages {
  readonly answer: Ask;
  /** Answers from memory: with a page that was cut before, or with the cache stage's answer. */
  readonly answerAtOnce: AskAtOnce;
  /** The question whose answer would be used now: that of the block, or the question itself. */
  readonly sourceOf: (asked: Asked, format: Format) => Promise<Asked>;
  /** Keys of all blocks from which a question's answer may have been cut. */
  readonly blockKeysOf: (asked: Asked, format: Format) => readonly string[];
}

export function createPages(options: PagesOptions): Pages {
  const { askAtOnce, isOn, peek } = options;
  const pageEntries = createPageEntries(options);
  const meaning = createLimitDefaults(options);
  const pageByPage = createPageByPage(options);
  const verify = createVerify({ ...options, pageEntries, pageByPage });
  const cuttable = createCuttable(isOn, meaning, pageByPage);
  const choose = createChoose(peek, pageEntries);
  const parts: Parts = { ...options, pageEntries, meaning, pageByPage, verify };

  return {
    async answer(question) {
      const page = cuttable(question, question.request.format);
      const block = page && (await choose(page));
      if (page === undefined || block === undefined || block.asked.key === question.key)
        return await askExactly(question, parts);
      return await answerPage(question, page, block, parts);
    },
    answerAtOnce(question) {
      const page = cuttable(question, question.request.format);
      const isItself = page === undefined || page.blocks.some(({ asked }) => asked.key === question.key);
      return isItself ? askAtOnce(question) : findCut(question, page, parts);
    },
    async sourceOf(asked, format) {
      const page = cuttable(asked, format);
      const block = page && (await choose(page));
      return block?.asked ?? asked;
    },
    blockKeysOf: ({ query }, format) =>
      isPaged(query) && isOn() ? blocksOf(query, format).map(({ asked }) => asked.key) : [],
  };
}

/** @returns the page if it was cut from one of its blocks before, and memory still has the page and the block */
function findCut(
  question: Question,
  page: CuttablePage,
  { memory, askAtOnce, pageEntries }: Parts,
): Answer | undefined {
  const { blocks } = page;
  const isSource = ({ asked }: Block): boolean => {
    const cached = memory.find(asked.key);
    return cached !== undefined && pageEntries.find(page, cached) !== undefined;
  };
  // Looking up a block may refresh it early. So look up only the block that the page was cut from.
  const block = blocks.length === 1 ? blocks[0] : blocks.find(isSource);
  const answer = block && askAtOnce({ request: question.request, ...block.asked });
  const cut = answer?.entry.status === 200 ? pageEntries.find(page, answer.entry) : undefined;
  return answer && cut && { ...answer, ...cut };
}

/** Answers with the page fetched by itself, and learns from the answer. */
async function askExactly(question: Question, { ask, transcode, meaning }: Parts): Promise<Answer> {
  const answer = await ask(question);
  const { query, key } = question;
  const { entry, outcome } = answer;
  if (outcome === "miss" && entry.status === 200 && isPaged(query) && meaning.isSample(query))
    meaning.learn(query, key, await transcode(entry, "identity"));
  return answer;
}

/** Answers with the page cut from a block; if the block cannot be used, with the page fetched by itself. */
async function answerPage(
  question: Question,
  page: CuttablePage,
  block: Block,
  parts: Parts,
): Promise<Answer> {
  const { pageEntries, pageByPage, verify } = parts;
  const { request } = question;

  /** Fetches the page by itself after its block failed. If that succeeds, the block was the problem. */
  async function fetchInstead(why: string): Promise<Answer> {
    const answer = await askExactly(question, parts);
    if (answer.entry.status === 200) pageByPage.add(page.search, page.query.resource, why);
    return answer;
  }

  const answer = await parts.ask({ request, ...block.asked }).catch(failureOfBlock);
  if (answer instanceof Problem) return await fetchInstead(answer.code);
  const { entry, stored, forwarded } = answer;
  if (entry.status !== 200) return await fetchInstead(`status ${entry.status}`);
  const index = await indexOf(answer, page, block, parts);
  if (index === undefined) return await askExactly(question, parts);
  if (!holdsPage(index, page)) {
    // The index that `choose` used was out of date: there are more records now.
    const around = blockAround(page);
    if (around === undefined) return await askExactly(question, parts);
    return await answerPage(question, page, blockOf(page.query, page.format, around), parts);
  }
  const isWanted = (): boolean => !request.gone().aborted;
  const mayKeep = stored !== "upstream-no-store";
  const { isNew, keptAs, entry: cut } = await pageEntries.entryOf(page, entry, index, mayKeep, isWanted);
  if (stored === true) pageEntries.pack(block.asked, entry, index);
  verify(question, page, block, entry);
  const saved = page.offset >= index.totalCount ? "past_end" : "folded";
  return { ...answer, entry: cut, keptAs, ...(isNew && forwarded === undefined && { saved }) };
}

/** @returns a block's index; `undefined` if no page can be cut from the block */
async function indexOf(
  { entry, stored }: Answer,
  { search, query, isImplied }: CuttablePage,
  { stretch }: Block,
  { pageEntries, pageByPage }: Parts,
): Promise<BlockIndex | undefined> {
  const index = await pageEntries.indexOf(entry, query, stretch);
  const isUseless = typeof index === "string" || (isImplied && index.echoesLimit);
  const why = typeof index === "string" ? index : isUseless ? "the limit is echoed" : stored;
  if (isUseless || why === "upstream-no-store" || why === "too-large")
    pageByPage.add(search, query.resource, String(why));
  return isUseless ? undefined : index;
}

/** Failures of a block after which its page may still succeed. */
const FAILURES_OF_BLOCKS: ReadonlySet<ProblemCode> = new Set([
  "upstream-error",
  "upstream-invalid-response",
  "upstream-timeout",
  "upstream-unavailable",
]);

/** @throws the error itself if the page would fail as well: a refusal, or a bug in the gateway */
function failureOfBlock(error: unknown): Problem {
  const isFailure = error instanceof Problem && FAILURES_OF_BLOCKS.has(error.code);
  if (isFailure && error.details.refusedHere !== true) return error;
  throw error;
}

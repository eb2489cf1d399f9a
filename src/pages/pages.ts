/**
 * Pages from blocks: the stage between admitting a request and the cache.
 *
 * A page of a search is cut from a block: a larger part of the same search's results, which contains many pages. To
 * the cache stage, a block is a question like any other. So flights, budget, stores, purges, freshness and the
 * caller's cache directives apply to it there. See docs/pages.md.
 */
import type { Answer } from "../cache/cache.ts";
import { Problem, type ProblemCode } from "../errors.ts";
import type { Format } from "../interface/media-types.ts";
import type { Clock } from "../process/clock.ts";
import type { Question } from "../query/request.ts";
import type { Observer } from "../telemetry/events.ts";
import type { ParsedQuery } from "../query/query.ts";
import type { BlockIndex } from "./block-index.ts";
import { blocksOf, chooseBlock, createCuttable, type CuttablePage } from "./choose-block.ts";
import { holdsPage } from "./cut-page.ts";
import { isImplied, LimitDefaults } from "./limit-defaults.ts";
import { PageByPage } from "./page-by-page.ts";
import { type CutterOptions, PageEntries } from "./page-entries.ts";
import { type Block, isPaged } from "./search.ts";
import { createVerify, type Verify, type VerifyOptions } from "./verify-pages.ts";

/** Answers a question; rejects with a `Problem`. Both the cache stage and this stage are such a function. */
type Ask = (question: Question) => Promise<Answer>;

/** Answers a question if memory has the answer and it may be served; `undefined`: call `Ask`. */
type AskAtOnce = (question: Question) => Answer | undefined;

export interface PagesOptions extends CutterOptions, VerifyOptions {
  /** The next stage: the cache. */
  readonly ask: Ask;
  /** The next stage, from memory only. */
  readonly askAtOnce: AskAtOnce;
  /** Whether pages are cut from blocks at all. */
  readonly isOn: () => boolean;
  readonly clock: Pick<Clock, "monotonic">;
  readonly observer: Pick<Observer, "warn" | "error">;
}

export class Pages {
  readonly #options: PagesOptions;
  readonly #pageEntries: PageEntries;
  readonly #defaults: LimitDefaults;
  readonly #pageByPage: PageByPage;
  readonly #verify: Verify;
  readonly #cuttable: ReturnType<typeof createCuttable>;

  constructor(options: PagesOptions) {
    this.#options = options;
    this.#pageEntries = new PageEntries(options);
    this.#defaults = new LimitDefaults(options.clock);
    this.#pageByPage = new PageByPage(options.clock, options.observer);
    this.#verify = createVerify(options, this.#pageEntries, this.#pageByPage);
    this.#cuttable = createCuttable(options.isOn, this.#defaults, this.#pageByPage);
  }

  readonly answer: Ask = async (question) => {
    const page = this.#cuttable(question, question.request.format);
    const block = page && (await this.#choose(page));
    return page === undefined || block === undefined || block.key === question.key
      ? await this.#askExactly(question)
      : await this.#answerPage(question, page, block);
  };

  /** Answers from memory: with a page that was cut before, or with the cache stage's answer. */
  readonly answerAtOnce: AskAtOnce = (question) => {
    const page = this.#cuttable(question, question.request.format);
    const isItself = page === undefined || page.blocks.some(({ key }) => key === question.key);
    return isItself ? this.#options.askAtOnce(question) : this.#findCut(question, page);
  };

  /** The question whose answer would be used now: that of the block, or the question itself. */
  readonly sourceOf = async (asked: ParsedQuery, format: Format): Promise<ParsedQuery> => {
    const page = this.#cuttable(asked, format);
    return (page && (await this.#choose(page))) ?? asked;
  };

  /** Keys of all blocks from which a question's answer may have been cut. */
  readonly blockKeysOf = ({ query }: ParsedQuery, format: Format): readonly string[] =>
    isPaged(query) && this.#options.isOn() ? blocksOf(query, format).map(({ key }) => key) : [];

  #choose(page: CuttablePage): Promise<Block | undefined> {
    return chooseBlock(page, this.#options.peek, this.#pageEntries);
  }

  /** @returns the page if it was cut from one of its blocks before, and memory still has the page and the block */
  #findCut(question: Question, page: CuttablePage): Answer | undefined {
    const { memory, askAtOnce } = this.#options;
    // Asking for a block counts as a request for it, and may refresh it. So ask only for the one that the page was cut from.
    for (const block of page.blocks) {
      const cached = memory.find(block.key);
      const cut = cached && this.#pageEntries.find(page, cached);
      if (cut === undefined) continue;
      const answer = askAtOnce({ request: question.request, ...block });
      return answer && { ...answer, ...cut };
    }
    return undefined;
  }

  /** Answers with the page fetched by itself, and learns from the answer. */
  async #askExactly(question: Question): Promise<Answer> {
    const { ask, transcode } = this.#options;
    const answer = await ask(question);
    const { query, key } = question;
    const { entry, outcome } = answer;
    if (outcome === "miss" && entry.status === 200 && isPaged(query) && isImplied(query))
      this.#defaults.learn(query, key, await transcode(entry, "identity"));
    return answer;
  }

  /** Answers with the page cut from a block; if the block cannot be used, with the page fetched by itself. */
  async #answerPage(question: Question, page: CuttablePage, block: Block): Promise<Answer> {
    const { request } = question;
    const answer = await this.#options.ask({ request, ...block }).catch(failureOfBlock);
    if (answer instanceof Problem) return await this.#askInstead(question, page, answer.code);
    const { entry, stored, forwarded } = answer;
    if (entry.status !== 200) return await this.#askInstead(question, page, `status ${entry.status}`);
    const index = await this.#indexOf(answer, page, block);
    // If the block does not hold the page, it was fetched just now, and there are more records than before.
    if (index === undefined || !holdsPage(index, page)) return await this.#askExactly(question);
    const mayKeep = stored !== "upstream-no-store";
    const cut = await this.#pageEntries.entryOf(page, entry, index, mayKeep, () => !request.gone().aborted);
    this.#verify(question, page, block, entry);
    const saved = page.offset >= index.totalCount ? "past_end" : "folded";
    const isSaved = cut.isNew && forwarded === undefined;
    return { ...answer, entry: cut.entry, keptAs: cut.keptAs, ...(isSaved && { saved }) };
  }

  /** Fetches the page by itself after its block failed. If that succeeds, the block was the problem. */
  async #askInstead(question: Question, page: CuttablePage, why: string): Promise<Answer> {
    const answer = await this.#askExactly(question);
    if (answer.entry.status === 200) this.#pageByPage.add(page.search, page.query.resource, why);
    return answer;
  }

  /** @returns a block's index; `undefined` if no page can be cut from the block */
  async #indexOf(
    { entry, stored }: Answer,
    { search, query }: CuttablePage,
    block: Block,
  ): Promise<BlockIndex | undefined> {
    const index = await this.#pageEntries.indexOf(entry, block);
    if (typeof index === "string") {
      this.#pageByPage.add(search, query.resource, index);
      return undefined;
    }
    if (isImplied(query) && index.echoesLimit) return this.#defaults.giveUp(query);
    // A page can be cut from a block that is not stored. But for each further page, the block would be fetched again.
    if (stored === "upstream-no-store" || stored === "too-large")
      this.#pageByPage.add(search, query.resource, stored);
    return index;
  }
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

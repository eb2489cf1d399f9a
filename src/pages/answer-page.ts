/** Answers with a page that is fetched by itself, or cut from its block. */
import { Problem, type ProblemCode } from "../errors.ts";
import type { Answer } from "../cache/cache.ts";
import type { ContentCoding } from "../interface/media-types.ts";
import type { Entry } from "../cache/entry.ts";
import type { Question } from "../query/question.ts";
import { blockAround, type BlockIndex } from "./block-index.ts";
import type { CuttablePage } from "./choose-block.ts";
import { holdsPage } from "./cut-page.ts";
import type { PageEntries } from "./page-entries.ts";
import type { LimitDefaults } from "./limit-defaults.ts";
import type { PageByPage } from "./page-by-page.ts";
import { type Block, blockOf, isPaged } from "./search.ts";
import type { Verify } from "./verify-pages.ts";

/** Answers a question; rejects with a `Problem`. Both the cache stage and this stage are such a function. */
export type Ask = (question: Question) => Promise<Answer>;

interface AskExactlyOptions {
  /** The next stage: the cache. */
  readonly ask: Ask;
  readonly transcode: (entry: Entry, coding: ContentCoding) => Promise<Buffer>;
  readonly meaning: LimitDefaults;
}

/** @returns a function that fetches a page by itself, and learns from the answer */
export function createAskExactly({ ask, transcode, meaning }: AskExactlyOptions): Ask {
  return async function askExactly(question) {
    const answer = await ask(question);
    const { query, key } = question;
    const { entry, outcome } = answer;
    if (outcome === "miss" && entry.status === 200 && isPaged(query) && meaning.isSample(query))
      meaning.learn(query, key, await transcode(entry, "identity"));
    return answer;
  };
}

interface AnswerPageOptions extends Pick<AskExactlyOptions, "ask"> {
  readonly askExactly: Ask;
  readonly pageEntries: PageEntries;
  readonly pageByPage: PageByPage;
  readonly verify: Verify;
}

/** @returns the page, cut from a block; if the block cannot be used, the page fetched by itself */
type CutFrom = (question: Question, page: CuttablePage, block: Block) => Promise<Answer>;

export function createAnswerPage(options: AnswerPageOptions): CutFrom {
  const { ask, askExactly, pageEntries, pageByPage, verify } = options;

  /** Fetches the page by itself after its block failed. If that succeeds, the block was the problem. */
  async function fetchInstead(question: Question, page: CuttablePage, why: string): Promise<Answer> {
    const answer = await askExactly(question);
    if (answer.entry.status === 200) pageByPage.add(page.search, page.query.resource, why);
    return answer;
  }

  return async function answerPage(question, page, block): Promise<Answer> {
    const { request } = question;
    const answer = await ask({ request, ...block.asked }).catch(failureOfBlock);
    if (answer instanceof Problem) return await fetchInstead(question, page, answer.code);
    const { entry, stored, forwarded } = answer;
    if (entry.status !== 200) return await fetchInstead(question, page, `status ${entry.status}`);
    const index = await indexOf(answer, page, block, options);
    if (index === undefined) return await askExactly(question);
    if (!holdsPage(index, page)) {
      // The index that `choose` used was out of date: there are more records now.
      const around = blockAround(page);
      if (around === undefined) return await askExactly(question);
      return await answerPage(question, page, blockOf(page.query, page.format, around));
    }
    const isWanted = (): boolean => !request.gone().aborted;
    const mayKeep = stored !== "upstream-no-store";
    const { isNew, keptAs, entry: cut } = await pageEntries.entryOf(page, entry, index, mayKeep, isWanted);
    if (stored === true) pageEntries.pack(block.asked, entry, index);
    verify.cut(question, page, block, entry);
    const isSaved = isNew && forwarded === undefined;
    const saved = page.offset >= index.totalCount ? "past_end" : "folded";
    return { ...answer, entry: cut, keptAs, ...(isSaved && { saved }) };
  };
}

/** @returns a block's index; `undefined` if no page can be cut from the block */
async function indexOf(
  { entry, stored }: Answer,
  { search, query, isImplied }: CuttablePage,
  { stretch }: Block,
  { pageEntries, pageByPage }: AnswerPageOptions,
): Promise<BlockIndex | undefined> {
  const index = await pageEntries.indexOf(entry, query, stretch);
  const isUnfit = typeof index === "string";
  const why = isUnfit
    ? index
    : isImplied && index.echoesLimit
      ? "the limit is echoed"
      : stored === "upstream-no-store" || stored === "too-large"
        ? stored
        : undefined;
  if (why !== undefined) pageByPage.add(search, query.resource, why);
  return isUnfit || (isImplied && index.echoesLimit) ? undefined : index;
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

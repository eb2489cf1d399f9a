/** Answers with a page that is fetched by itself, or cut from its block. */
import { Problem, type ProblemCode } from "../errors.ts";
import type { Answer, Question } from "../types.ts";
import { blockAround, type BlockIndex } from "./block-index.ts";
import type { FoldablePage } from "./choose.ts";
import { holdsPage } from "./cut.ts";
import type { Ask, Parts } from "./parts.ts";
import { type Block, blockOf, isPaged } from "./search.ts";
import { createCheckSample } from "./verify.ts";

/** @returns a function that fetches a page by itself, and learns from the answer */
export function createAskExactly({ ask, settings, latency, meaning, transcode }: Parts): Ask {
  return async function askExactly(question) {
    const answer = await ask(question);
    const { query, key } = question;
    const { entry, outcome } = answer;
    if (outcome !== "miss" || entry.status !== 200 || settings().fold === "off" || !isPaged(query))
      return answer;
    if ((query.limit ?? 0) * 2 <= settings().block) latency.measuredPage(entry);
    if (meaning.isSample(query)) meaning.learn(query, key, await transcode(entry, "identity"));
    return answer;
  };
}

/** @returns the page, cut from a block; if the block cannot be used, the page fetched by itself */
export type CutFrom = (question: Question, page: FoldablePage, block: Block) => Promise<Answer>;

export function createCutFrom(parts: Parts, askExactly: Ask): CutFrom {
  const { ask, cutter, derive, folding } = parts;
  const learnFrom = createLearnFrom(parts);
  const saw = createSaw(parts);
  const checkSample = createCheckSample(parts);

  /** Fetches the page by itself after its block failed. If that succeeds, the block was the problem. */
  async function fetchInstead(
    question: Question,
    { search, query, size }: FoldablePage,
    why: string,
  ): Promise<Answer> {
    const answer = await askExactly(question);
    if (answer.entry.status === 200) folding.blockFailed(search, query.resource, size, why);
    return answer;
  }

  return async function cutFrom(question, page, block): Promise<Answer> {
    const { query, size, format } = page;
    const { request } = question;
    const begun = derive.begin();
    const answer = await ask({ request, ...block.asked }).catch(failureOfBlock);
    if (answer instanceof Problem) return await fetchInstead(question, page, answer.code);
    const { entry } = answer;
    if (entry.status !== 200) return await fetchInstead(question, page, `status ${entry.status}`);
    const index = await learnFrom(answer, page, block);
    if (index === undefined) return await askExactly(question);
    saw(question, page, block, answer, index, begun);
    if (!holdsPage(index, page)) {
      // The index that `choose` used was out of date: there are more records now.
      const around = blockAround(page, size);
      if (around === undefined) return await askExactly(question);
      return await cutFrom(question, page, blockOf(query, format, around));
    }
    const mayKeep = answer.stored !== "upstream-no-store";
    const isWanted = (): boolean => !request.gone().aborted;
    const { isNew, keptAs, entry: cut } = await cutter.entryOf(page, entry, index, mayKeep, isWanted);
    if (answer.stored === true) cutter.pack(block.asked, entry, index);
    checkSample(question, page, block, entry);
    const isSaved = isNew && answer.forwarded === undefined;
    const saved = page.offset >= index.totalCount ? "past_end" : "folded";
    return { ...answer, entry: cut, keptAs, ...(isSaved && { saved }) };
  };
}

/** @returns a function that fetches a page that is itself a block */
export function createAskBlock({ cutter, derive }: Parts, askExactly: Ask): CutFrom {
  const saw = createSaw({ derive });
  return async function askBlock(question, page, block) {
    const begun = derive.begin();
    const answer = await askExactly(question);
    if (answer.entry.status !== 200) return answer;
    const index = await cutter.indexOf(answer.entry, page.query, block.stretch);
    if (typeof index !== "string") saw(question, page, block, answer, index, begun);
    return answer;
  };
}

type Saw = (
  question: Question,
  page: FoldablePage,
  block: Block,
  answer: Answer,
  index: BlockIndex,
  begun: number,
) => void;

/** @returns a function that notes a block as a source for derived answers */
function createSaw({ derive }: Pick<Parts, "derive">): Saw {
  return (question, page, block, { entry, outcome, stored }, index, begun) => {
    if (stored !== true) return;
    derive.saw(question, page, { block, entry, index, begun: outcome === "miss" ? begun : undefined });
  };
}

/** @returns the page if it was cut from one of these blocks before, and memory still has the page and the block */
export type FindCut = (question: Question, page: FoldablePage) => Answer | undefined;

export function createFindCut(parts: Parts): FindCut {
  const { askAtOnce, cutter, memory } = parts;
  const checkSample = createCheckSample(parts);
  return function findCut(question, page) {
    const { blocks } = page;
    // Looking up a block may refresh it early. So look up only the block that the page was cut from.
    const block =
      blocks.length === 1
        ? blocks[0]
        : blocks.find(({ asked }) => {
            const cached = memory.find(asked.key);
            return cached !== undefined && cutter.find(page, cached) !== undefined;
          });
    if (block === undefined) return undefined;
    const answer = askAtOnce({ request: question.request, ...block.asked });
    const cut = answer?.entry.status === 200 ? cutter.find(page, answer.entry) : undefined;
    if (answer === undefined || cut === undefined) return undefined;
    checkSample(question, page, block, answer.entry);
    return { ...answer, ...cut };
  };
}

type LearnFrom = (answer: Answer, page: FoldablePage, block: Block) => Promise<BlockIndex | undefined>;

/**
 * @returns a function that returns a block's index; `undefined` if no page can be cut from the block. The search is then
 *   fetched page by page.
 */
function createLearnFrom({ cutter, folding, latency }: Parts): LearnFrom {
  return async function learnFrom(
    { entry, outcome, stored },
    { search, query, size, isImplied },
    { stretch },
  ) {
    const index = await cutter.indexOf(entry, query, stretch);
    if (typeof index === "string") {
      folding.stop(search, query.resource, index);
      return undefined;
    }
    if (isImplied && index.echoesLimit) {
      folding.stop(search, query.resource, "the limit is echoed");
      return undefined;
    }
    if (outcome === "miss" && index.ids.length * 2 >= size) latency.measuredBlock(entry);
    if (stored === "upstream-no-store") folding.stop(search, query.resource, stored);
    if (stored === "too-large") folding.blockFailed(search, query.resource, size, stored);
    return index;
  };
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

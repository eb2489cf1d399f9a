/**
 * Has a part of the cut pages compared with the upstream's own, while there is budget to spare.
 */
import type { Entry, Question } from "../types.ts";
import type { FoldablePage } from "./choose.ts";
import { cutPage, holdsPage } from "./cut.ts";
import { WRONG } from "./folding.ts";
import type { Parts } from "./parts.ts";
import type { Block } from "./search.ts";

/** Below this part of the budget nothing is spent on checking. */
const CHECK_ABOVE = 0.5;

/** Checks a page, or lets it be. */
export type CheckNowAndThen = (question: Question, page: FoldablePage, block: Block, entry: Entry) => void;

export function createCheckNowAndThen(parts: Parts): CheckNowAndThen {
  const { settings, budgetLeft, random, verify, cutter, folding, transcode } = parts;

  async function check(question: Question, page: FoldablePage, block: Block, entry: Entry): Promise<void> {
    const { query, search } = page;
    const cut = async (from: Entry): Promise<Buffer | undefined> => {
      const index = await cutter.indexOf(from, query, block.stretch);
      if (typeof index === "string" || !holdsPage(index, page)) return undefined;
      return cutPage(await transcode(from, "identity"), index, page).body;
    };
    const source: Question = { request: question.request, ...block.asked };
    const result = await verify({ question, block: source, resource: query.resource, cut }, entry);
    if (result === "differed") folding.stop(search, query.resource, WRONG);
  }

  return function checkNowAndThen(question, page, block, entry) {
    const isChosen = random.fraction() < settings().verify;
    if (isChosen && budgetLeft(page.query.resource) >= CHECK_ABOVE) void check(question, page, block, entry);
  };
}

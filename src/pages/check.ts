/**
 * Compares a sample of the cut pages with the upstream's own pages, while enough budget is left.
 */
import type { Entry, Question } from "../types.ts";
import type { FoldablePage } from "./choose.ts";
import { cutPage, holdsPage } from "./cut.ts";
import { WRONG } from "./folding.ts";
import type { Parts } from "./parts.ts";
import type { Block } from "./search.ts";

/** Pages are checked only while at least this part of the budget is left. */
const CHECK_ABOVE = 0.5;

/** Checks a page if it is in the sample. The check runs in the background. */
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

/**
 * Checks in the background that pages cut from a block equal the upstream's own pages. It checks a sample of the cut pages,
 * while enough budget is left.
 *
 * The data may change between the two calls. So a difference counts only if it remains after both are fetched again, one
 * after the other.
 */
import type { Entry, Observer, PageCheck, Question, RefreshEnd } from "../types.ts";
import type { FoldedResource } from "./block-index.ts";
import type { FoldablePage } from "./choose.ts";
import { holdsPage } from "./cut.ts";
import { WRONG } from "./folding.ts";
import type { Parts } from "./parts.ts";
import type { Block } from "./search.ts";

/** A page that was cut, and its source. */
interface Checked {
  /** The page. */
  readonly question: Question;
  readonly block: Question;
  readonly resource: FoldedResource;
  /** The page's bytes, cut from a block; `undefined` if that block does not contain the page. */
  readonly cut: (block: Entry) => Promise<Buffer | undefined>;
}

export interface VerifyOptions {
  /** The entry under a key, unless it was purged. */
  readonly peek: (key: string) => Promise<Entry | undefined>;
  readonly refresh: (question: Question, cached: Entry | undefined, cause: "refresh") => Promise<RefreshEnd>;
  /** The bytes of an entry. */
  readonly bodyOf: (entry: Entry) => Promise<Buffer>;
  readonly observer: Pick<Observer, "error"> & {
    /** A cut page was compared with the upstream's page. */
    readonly pageChecked: (resource: FoldedResource, result: PageCheck) => void;
  };
}

/** @returns whether a page equals the upstream's page; never rejects */
export type Verify = (checked: Checked, block: Entry) => Promise<PageCheck>;

export function createVerify({ peek, refresh, bodyOf, observer }: VerifyOptions): Verify {
  /** Fetches a question's answer again. */
  async function fetched(question: Question): Promise<Entry | undefined> {
    const cached = await peek(question.key);
    const end = await refresh(question, cached, "refresh");
    const entry = end === "refreshed" ? await peek(question.key) : undefined;
    // Another replica may have just stored a newer entry, which is as good. An older one is useless.
    return entry?.status === 200 && entry.storedAt >= (cached?.storedAt ?? 0) ? entry : undefined;
  }

  async function isSame(checked: Checked, block: Entry, page: Entry): Promise<boolean> {
    const cut = await checked.cut(block);
    return cut !== undefined && cut.equals(await bodyOf(page));
  }

  async function check(checked: Checked, block: Entry): Promise<PageCheck> {
    const page = await fetched(checked.question);
    if (page === undefined) return "unknown";
    if (await isSame(checked, block, page)) return "agreed";
    const newBlock = await fetched(checked.block);
    if (newBlock === undefined) return "unknown";
    const newPage = await fetched(checked.question);
    if (newPage === undefined) return "unknown";
    return (await isSame(checked, newBlock, newPage)) ? "agreed" : "differed";
  }

  return async function verify(checked, block) {
    try {
      const result = await check(checked, block);
      observer.pageChecked(checked.resource, result);
      return result;
    } catch (error) {
      observer.error("A page could not be checked. This is a bug in the gateway.", {
        query: checked.question.canonicalQuery,
        err: error,
      });
      return "unknown";
    }
  };
}

/** Pages are checked only while at least this part of the budget is left. */
const CHECK_ABOVE = 0.5;

/** Checks a page if it is in the sample. The check runs in the background. */
export type CheckSample = (question: Question, page: FoldablePage, block: Block, entry: Entry) => void;

export function createCheckSample(parts: Parts): CheckSample {
  const { settings, budgetLeft, random, verify, cutter, folding } = parts;

  async function check(question: Question, page: FoldablePage, block: Block, entry: Entry): Promise<void> {
    const { query, search } = page;
    const cut = async (from: Entry): Promise<Buffer | undefined> => {
      const index = await cutter.indexOf(from, query, block.stretch);
      if (typeof index === "string" || !holdsPage(index, page)) return undefined;
      return (await cutter.cut(from, index, page)).body;
    };
    const source: Question = { request: question.request, ...block.asked };
    const result = await verify({ question, block: source, resource: query.resource, cut }, entry);
    if (result === "differed") folding.stop(search, query.resource, WRONG);
  }

  return function checkSample(question, page, block, entry) {
    const isChosen = random.fraction() < settings().verify;
    if (isChosen && budgetLeft(page.query.resource) >= CHECK_ABOVE) void check(question, page, block, entry);
  };
}

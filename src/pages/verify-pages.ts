/**
 * Checks in the background that pages cut from a block equal the upstream's own pages. Checks make at most one per cent of
 * the calls that are made anyway, one check at a time, and only while enough budget is left.
 *
 * The data may change between the two calls. So a difference counts only if it remains after both are fetched again, one
 * after the other.
 */
import type { Resource } from "../interface/resources.ts";
import type { Entry } from "../cache/entry.ts";
import type { Observer, PageCheck, RefreshEnd } from "../telemetry/events.ts";
import type { Question } from "../query/question.ts";
import type { PagedResource } from "./block-index.ts";
import type { CuttablePage } from "./choose-block.ts";
import { holdsPage } from "./cut-page.ts";
import type { PageEntries } from "./page-entries.ts";
import { type PageByPage, WRONG } from "./page-by-page.ts";
import type { Block } from "./search.ts";

/** The calls for checks, as a part of the other calls. */
const CHECKS_PER_CALL = 0.01;
/** The most calls that one check makes. */
const CALLS_OF_A_CHECK = 3;
/** Pages are checked only while at least this part of the budget is left. */
const CHECK_ABOVE = 0.5;

export interface VerifyOptions {
  readonly pageEntries: PageEntries;
  readonly pageByPage: Pick<PageByPage, "add">;
  /** The part of the budget that is left for a resource, from 0 to 1. */
  readonly budgetLeft: (resource: Resource) => number;
  /** The entry under a key, unless it was purged. */
  readonly peek: (key: string) => Promise<Entry | undefined>;
  readonly refresh: (question: Question, cached: Entry | undefined, cause: "refresh") => Promise<RefreshEnd>;
  readonly observer: Pick<Observer, "error"> & {
    /** A cut page was compared with the upstream's page. */
    readonly pageChecked: (resource: PagedResource, result: PageCheck) => void;
    /** An answer from the cache was compared with the upstream's present answer. */
    readonly answerChecked: (isCurrent: boolean) => void;
  };
}

export interface Verify {
  /** The upstream was called, not for a check. */
  readonly called: () => void;
  /** A page was cut. It is checked in the background if a check is due. */
  readonly cut: (question: Question, page: CuttablePage, block: Block, entry: Entry) => void;
}

export function createVerify(options: VerifyOptions): Verify {
  const { pageEntries, pageByPage, budgetLeft, peek, refresh, observer } = options;
  /** The calls that checks may make now; below 0 after a check that made several. */
  let allowed = 0;
  let isChecking = false;

  /** Fetches a question's answer again. */
  async function fetched(question: Question): Promise<Entry | undefined> {
    allowed--;
    const cached = await peek(question.key);
    const end = await refresh(question, cached, "refresh");
    const entry = end === "refreshed" ? await peek(question.key) : undefined;
    // Another replica may have just stored a newer entry, which is as good. An older one is useless.
    return entry?.status === 200 && entry.storedAt >= (cached?.storedAt ?? 0) ? entry : undefined;
  }

  async function check(
    question: Question,
    page: CuttablePage,
    source: Block,
    block: Entry,
  ): Promise<PageCheck> {
    const isSame = async (from: Entry, own: Entry): Promise<boolean> => {
      const index = await pageEntries.indexOf(from, page.query, source.stretch);
      if (typeof index === "string" || !holdsPage(index, page)) return false;
      return (await pageEntries.cut(from, index, page)).body.equals(await pageEntries.bytesOf(own));
    };
    const own = await fetched(question);
    if (own === undefined) return "unknown";
    const isCurrent = await isSame(block, own);
    observer.answerChecked(isCurrent);
    if (isCurrent) return "agreed";
    const newBlock = await fetched({ request: question.request, ...source.asked });
    if (newBlock === undefined) return "unknown";
    const newOwn = await fetched(question);
    if (newOwn === undefined) return "unknown";
    return (await isSame(newBlock, newOwn)) ? "agreed" : "differed";
  }

  async function checkAndReport(...given: Parameters<typeof check>): Promise<void> {
    const [question, { search, query }] = given;
    isChecking = true;
    try {
      const result = await check(...given);
      observer.pageChecked(query.resource, result);
      if (result === "differed") pageByPage.add(search, query.resource, WRONG);
    } catch (error) {
      observer.error("A page could not be checked. This is a bug in the gateway.", {
        query: question.canonicalQuery,
        err: error,
      });
    } finally {
      isChecking = false;
    }
  }

  return {
    called() {
      allowed = Math.min(allowed + CHECKS_PER_CALL, CALLS_OF_A_CHECK);
    },
    cut(...given) {
      const [, { query }] = given;
      if (allowed < 1 || isChecking || budgetLeft(query.resource) < CHECK_ABOVE) return;
      void checkAndReport(...given);
    },
  };
}

/**
 * Checks now and then, in the background, that a page cut from a block is what the upstream sends for that page.
 *
 * The data may change between the two calls. Only a difference that remains when both are fetched again, one after
 * the other, counts.
 */
import type { Entry, Observer, PageCheck, Question, RefreshEnd } from "../types.ts";
import type { FoldedResource } from "./block-index.ts";

/** A page that was cut, and from what. */
interface Checked {
  /** The page. */
  readonly question: Question;
  readonly block: Question;
  readonly resource: FoldedResource;
  /** The page's bytes, cut from a block; `undefined` where that block does not hold it. */
  readonly cut: (block: Entry) => Promise<Buffer | undefined>;
}

export interface VerifyOptions {
  /** What is held under a key and was not purged. */
  readonly peek: (key: string) => Promise<Entry | undefined>;
  readonly refresh: (question: Question, held: Entry | undefined, cause: "refresh") => Promise<RefreshEnd>;
  /** The bytes of an entry. */
  readonly bodyOf: (entry: Entry) => Promise<Buffer>;
  readonly observer: Pick<Observer, "error"> & {
    /** A page that was cut from a block was compared with the upstream's. */
    readonly pageChecked: (resource: FoldedResource, result: PageCheck) => void;
  };
}

/** @returns whether a page is the upstream's; never rejects */
export type Verify = (checked: Checked, block: Entry) => Promise<PageCheck>;

export function createVerify({ peek, refresh, bodyOf, observer }: VerifyOptions): Verify {
  /** Fetches a question's answer anew. */
  async function fetched(question: Question): Promise<Entry | undefined> {
    const held = await peek(question.key);
    const end = await refresh(question, held, "refresh");
    const entry = end === "refreshed" ? await peek(question.key) : undefined;
    // Another replica may have brought a newer one just before; what matters is that it is no older.
    return entry?.status === 200 && entry.storedAt >= (held?.storedAt ?? 0) ? entry : undefined;
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

/**
 * Checks in the background that pages cut from a block equal the upstream's own pages.
 *
 * The data may change between the two calls. So a difference counts only if it remains after both are fetched again, one
 * after the other.
 */
import type { Checks } from "../cache/lifetimes/checks.ts";
import type { Entry } from "../cache/entry.ts";
import type { Refresh } from "../cache/refresh.ts";
import type { PageCheck } from "../telemetry/events.ts";
import type { Question } from "../query/request.ts";
import type { PagedResource } from "./block-index.ts";
import type { CuttablePage } from "./choose-block.ts";
import { holdsPage } from "./cut-page.ts";
import type { CutterOptions, PageEntries } from "./page-entries.ts";
import { type PageByPage, WRONG } from "./page-by-page.ts";
import type { Block } from "./search.ts";

export interface VerifyOptions extends Pick<CutterOptions, "transcode"> {
  readonly checks: Pick<Checks, "isDue" | "run">;
  /** The entry under a key, unless it was purged. */
  readonly peek: (key: string) => Promise<Entry | undefined>;
  readonly refresh: Refresh;
  /** A cut page was compared with the upstream's page. */
  readonly pageChecked: (resource: PagedResource, result: PageCheck) => void;
}

/** A page was cut. It is checked in the background if a check is due. */
export type Verify = (question: Question, page: CuttablePage, source: Block, block: Entry) => void;

export function createVerify(
  { checks, peek, refresh, transcode, pageChecked }: VerifyOptions,
  pageEntries: PageEntries,
  pageByPage: PageByPage,
): Verify {
  return (question, page, source, block) => {
    const { search, query } = page;
    if (!checks.isDue("page", query.resource)) return;
    const isSame = async (from: Entry, own: Entry): Promise<boolean> => {
      const index = await pageEntries.indexOf(from, source);
      if (typeof index === "string" || !holdsPage(index, page)) return false;
      return (await pageEntries.cut(from, index, page)).body.equals(await transcode(own, "identity"));
    };
    void checks.run("page", async (spend) => {
      /** Fetches a question's answer again. */
      async function fetched(one: Question): Promise<Entry | undefined> {
        spend();
        const cached = await peek(one.key);
        const end = await refresh(one, cached, "refresh");
        const entry = end === "refreshed" ? await peek(one.key) : undefined;
        // Another replica may have just stored a newer entry, which is as good. An older one is useless.
        return entry?.status === 200 && entry.storedAt >= (cached?.storedAt ?? 0) ? entry : undefined;
      }
      async function compared(): Promise<PageCheck> {
        const own = await fetched(question);
        if (own === undefined) return "unknown";
        if (await isSame(block, own)) return "agreed";
        const newBlock = await fetched({ request: question.request, ...source });
        const newOwn = newBlock && (await fetched(question));
        if (newBlock === undefined || newOwn === undefined) return "unknown";
        return (await isSame(newBlock, newOwn)) ? "agreed" : "differed";
      }
      const result = await compared();
      pageChecked(query.resource, result);
      if (result === "differed") pageByPage.add(search, query.resource, WRONG);
    });
  };
}

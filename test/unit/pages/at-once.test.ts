/** Pages that were cut or computed before are answered in the tick in which they are asked for, like any other hit. */
import { describe, expect, it } from "vitest";

import { createChecks } from "../../../src/cache/lifetimes/checks.ts";
import { isCompressible, transcode } from "../../../src/cache/encoder.ts";
import { createMemoryStore } from "../../../src/cache/store/memory.ts";
import { Pages } from "../../../src/pages/pages.ts";
import { canonicalForm } from "../../../src/query/canonical.ts";
import type { Pair, Query } from "../../../src/query/query.ts";
import { generateData } from "../../../src/sandbox/dataset/generate.ts";
import { listBody } from "../../../src/sandbox/envelope.ts";
import { search } from "../../../src/sandbox/search.ts";
import type { Answer } from "../../../src/cache/cache.ts";
import type { Entry } from "../../../src/cache/entry.ts";
import type { Question } from "../../../src/query/question.ts";
import { entryWith, keyOf } from "../../support/entries.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { requestWith, SEARCH } from "../../support/question.ts";

const DATA = generateData({ seed: 6, listings: 1_200, sold: 1, service: "propertyservice" });
const FROM_MEMORY: Omit<Answer, "entry"> = {
  outcome: "hit",
  tier: "memory",
  stored: true,
  forwarded: undefined,
  note: undefined,
};

interface Stage {
  readonly pages: Pages;
  /** Asks for a page and returns its bytes. */
  readonly fetched: (question: Question) => Promise<string>;
  /** The bytes of a page that is answered at once. */
  readonly atOnce: (question: Question) => string | undefined;
  /** Fetches what a question asks for anew, from an upstream whose records have another price. */
  readonly changed: (question: Question) => Promise<void>;
}

/** Pages before a cache stage that keeps everything, and fetches what it does not have from a sandbox. */
function start(): Stage {
  const clock = createFakeClock();
  const memory = createMemoryStore(100_000_000, clock);
  let data = DATA;

  function put({ query, key }: Pick<Question, "query" | "key">): Entry {
    const found = search(data, "listings", new URLSearchParams(canonicalForm(query).split("?")[1]));
    const entry = entryWith(listBody("listings", found, "offset"), clock.now());
    memory.put(key, entry);
    return entry;
  }
  const askAtOnce = ({ key }: Question): Answer | undefined => {
    const entry = memory.find(key);
    return entry && { ...FROM_MEMORY, entry };
  };
  const pages = new Pages({
    ask: async (question) =>
      askAtOnce(question) ?? { ...FROM_MEMORY, entry: put(question), outcome: "miss", forwarded: "miss" },
    askAtOnce,
    memory,
    keepInMemory: () => undefined,
    transcode,
    isCompressible,
    peek: async (key) => memory.find(key),
    refresh: async () => "refreshed",
    checks: createChecks(
      () => 1,
      () => expect.unreachable(),
    ),
    clock,
    isOn: () => true,
    observer: {
      info: () => undefined,
      warn: expect.unreachable,
      error: expect.unreachable,
    },
    pageChecked: () => undefined,
  });
  const textOf = ({ entry }: Answer): string => entry.bodies.identity?.toString() ?? "";
  return {
    pages,
    fetched: async (question) => textOf(await pages.answer(question)),
    atOnce(question) {
      const answer = pages.answerAtOnce(question);
      return answer && textOf(answer);
    },
    async changed(question) {
      const listPrice = 1_234_567;
      data = {
        ...DATA,
        listings: DATA.listings.map((row) => ({ ...row, record: { ...row.record, listPrice } })),
      };
      await clock.advance(1);
      put(await pages.sourceOf(question, "json"));
    },
  };
}

/** A caller's question for a page. */
function pageOf(filters: readonly Pair[], limit: number, offset: number): Question {
  const query: Query = { ...SEARCH, filters, limit, offset };
  const canonicalQuery = canonicalForm(query);
  return { query, canonicalQuery, key: keyOf(canonicalQuery), request: requestWith(Date.now()) };
}

describe("a page that was cut before", () => {
  it.each([
    ["of the first block", 40],
    ["of a later block", 540],
    ["behind the last record", 5_000],
  ])("%s is answered at once, until its block changes", async (_, offset) => {
    const { fetched, atOnce, changed } = start();
    const page = pageOf([], 20, offset);
    await fetched(pageOf([], 20, 0));
    await fetched(pageOf([], 20, 560));
    expect(atOnce(page)).toBeUndefined();
    const text = await fetched(page);
    expect(text).toContain(`"offset":${offset}`);
    expect(atOnce(page)).toBe(text);
    await changed(page);
    expect(atOnce(page)).toBeUndefined();
  });
});

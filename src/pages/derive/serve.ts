/**
 * Answers with a computed result: on behalf of a caller it asks the cache stage for every block that the result was
 * computed from, so what the caller demands of the cache applies to them.
 */
import type { Answer, Entry, Question } from "../../types.ts";
import { blockKeysOf, type FoldablePage } from "../choose.ts";
import { type Asked, blockOf, type PagedQuery } from "../search.ts";
import { type Computed, entryFrom, type SignOf } from "./compute.ts";
import { CHECK_ABOVE, createInBackground, type Learn } from "./learn.ts";
import type { DeriveParts } from "./parts.ts";
import type { CachedBlock } from "./sources.ts";

/** A result, and the blocks that it was computed from. */
export interface Result {
  readonly computed: Computed;
  readonly blocks: readonly [CachedBlock, ...CachedBlock[]];
}

export interface Serve {
  readonly answer: (question: Question, page: FoldablePage, result: Result) => Promise<Answer | undefined>;
  /** Whether the page was served before. */
  readonly isKnown: (page: FoldablePage) => boolean;
  /** @returns the page as it was served before, if memory has it and the result is still what it was */
  readonly atOnce: (question: Question, page: FoldablePage) => Answer | undefined;
}

/** What is remembered of a result. It has no bodies: they would stay in memory for as long as the spelling is known. */
interface Served {
  readonly key: string;
  /** The keys of whatever the page could have been fetched as. */
  readonly ownKeys: readonly string[];
  readonly computed: Pick<Computed, "entry" | "traits">;
  readonly sources: readonly Source[];
}

interface Source {
  readonly asked: Asked;
  readonly etag: string;
}

export function createServe(parts: DeriveParts, learn: Learn, signOf: SignOf): Serve {
  const { cutter, largest } = parts;
  const made = createMade(parts);
  const checkNowAndThen = createCheckNowAndThen(parts, learn);
  /** A target that is requested again has the same query object (query/known-targets.ts). */
  const servedBefore = new WeakMap<PagedQuery, Served>();

  function known({ query, key }: FoldablePage): Served | undefined {
    const served = servedBefore.get(query);
    return served?.key === key ? served : undefined;
  }

  return {
    isKnown: (page) => known(page) !== undefined,
    async answer(question, page, { computed, blocks }) {
      const served: Served = {
        key: page.key,
        ownKeys: [page.key, ...blockKeysOf(page.query, page.format, largest())],
        computed: { entry: { ...computed.entry, bodies: {} }, traits: computed.traits },
        sources: blocks.map(({ block, entry }) => ({ asked: block.asked, etag: entry.etag })),
      };
      const result = made(question, served);
      if (result === undefined) return undefined;
      const whole = { ...result.entry, bodies: computed.entry.bodies };
      const { entry, keptAs, isNew } = await cutter.entryOf(page, whole, computed.index, true);
      servedBefore.set(page.query, served);
      checkNowAndThen(question, page);
      return { ...result.answer, entry, keptAs, ...(isNew && { saved: "derived" as const }) };
    },
    atOnce(question, page) {
      const served = known(page);
      if (served === undefined) return undefined;
      if (![...served.computed.traits].every(([trait, sign]) => signOf(trait) === sign)) return undefined;
      const result = made(question, served);
      const cut = result && cutter.find(page, result.entry);
      if (result === undefined || cut === undefined) return undefined;
      checkNowAndThen(question, page);
      return { ...result.answer, ...cut };
    },
  };
}

/** The result as an entry, and what its sources are to a caller. `undefined`: one of them may not be used. */
type Made = (
  question: Question,
  served: Served,
) => { readonly answer: Answer; readonly entry: Entry } | undefined;

function createMade({ askAtOnce, isPurged }: DeriveParts): Made {
  return function made({ request }, { computed, sources, ownKeys }) {
    const answers = sources.flatMap(({ asked, etag }) => {
      const answer = askAtOnce({ request, ...asked });
      return answer?.outcome === "hit" && answer.entry.etag === etag ? [answer] : [];
    });
    const [first, ...others] = answers;
    if (first === undefined || answers.length < sources.length) return undefined;
    const entry = entryFrom(computed, [first.entry, ...others.map((other) => other.entry)]);
    // A purge of the search itself is a wish to have it fetched.
    if (ownKeys.some((key) => isPurged(key, entry))) return undefined;
    const note = answers.find((answer) => answer.note !== undefined)?.note;
    return { answer: { ...first, note }, entry };
  };
}

/** @returns what fetches a part of the computed searches by themselves, in the background, and compares */
function createCheckNowAndThen(
  { random, settings, budgetLeft, sources, refresh, peek, cutter, observer }: DeriveParts,
  { compareWith }: Learn,
): (question: Question, page: FoldablePage) => void {
  const inBackground = createInBackground({ observer });

  async function check(question: Question, page: FoldablePage): Promise<void> {
    const block = blockOf(page.query, page.format, { offset: 0, limit: page.size });
    const { key } = block.asked;
    const begun = sources.begin();
    const end = await refresh({ request: question.request, ...block.asked }, await peek(key), "refresh");
    const entry = end === "refreshed" ? await peek(key) : undefined;
    if (entry?.status !== 200) return;
    const index = await cutter.indexOf(entry, page.query, block.stretch);
    if (typeof index !== "string") await compareWith(question, page, { block, entry, index, begun });
  }

  return (question, page) => {
    const isChosen = random.fraction() < settings().sample;
    if (isChosen && budgetLeft(page.query.resource) >= CHECK_ABOVE)
      inBackground(question, () => check(question, page));
  };
}

/**
 * Answers with a computed result. It asks the cache stage, with the caller's request, for each block that the result was
 * computed from. So the caller's cache directives apply to these blocks.
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
  /** @returns the page as it was served before, if memory has it and its result is still valid */
  readonly atOnce: (question: Question, page: FoldablePage) => Answer | undefined;
}

/** What is remembered about a result. It has no bodies, which would stay in memory as long as the query object. */
interface Served {
  readonly key: string;
  /** The keys of the page itself, and of all blocks from which it could be cut. */
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
  const assemble = createAssemble(parts);
  const checkSample = createCheckSample(parts, learn);
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
      const result = assemble(question, served);
      if (result === undefined) return undefined;
      const whole = { ...result.entry, bodies: computed.entry.bodies };
      const { entry, keptAs, isNew } = await cutter.entryOf(page, whole, computed.index, true, () => true);
      servedBefore.set(page.query, served);
      checkSample(question, page);
      return { ...result.answer, entry, keptAs, ...(isNew && { saved: "derived" as const }) };
    },
    atOnce(question, page) {
      const served = known(page);
      if (served === undefined) return undefined;
      if (![...served.computed.traits].every(([trait, sign]) => signOf(trait) === sign)) return undefined;
      const result = assemble(question, served);
      const cut = result && cutter.find(page, result.entry);
      if (result === undefined || cut === undefined) return undefined;
      checkSample(question, page);
      return { ...result.answer, ...cut };
    },
  };
}

/** @returns a result's entry, and the answer to the caller; `undefined` if a source is no longer a hit for the caller */
type Assemble = (
  question: Question,
  served: Served,
) => { readonly answer: Answer; readonly entry: Entry } | undefined;

function createAssemble({ askAtOnce, isPurged }: DeriveParts): Assemble {
  return function assemble({ request }, { computed, sources, ownKeys }) {
    const answers = sources.flatMap(({ asked, etag }) => {
      const answer = askAtOnce({ request, ...asked });
      return answer?.outcome === "hit" && answer.entry.etag === etag ? [answer] : [];
    });
    const [first, ...others] = answers;
    if (first === undefined || answers.length < sources.length) return undefined;
    const entry = entryFrom(computed, [first.entry, ...others.map((other) => other.entry)]);
    // If an operator has purged the narrower search itself, it must be fetched.
    if (ownKeys.some((key) => isPurged(key, entry))) return undefined;
    const note = answers.find((answer) => answer.note !== undefined)?.note;
    return { answer: { ...first, note }, entry };
  };
}

/** @returns a function that fetches a sample of the computed searches in the background, and compares them */
function createCheckSample(
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

/** What the status page and the command `status` show. All values are JSON values; instants are epoch milliseconds. */
import { createCollect } from "./activity.ts";
import { activityOf, createFacts, type Facts, type Span, type StatusOptions } from "./facts.ts";
import { type Sentence, sentencesOf } from "./sentences.ts";

export type Status = Facts & {
  /** What an operator has to know first: at most three, the worst first. */
  readonly sentences: readonly Sentence[];
};

/** Many pages may be open, so a status is computed at most this often. */
const FRESH_MS = 900;

/** @returns a function that reads the status of all processes. It never rejects. */
export function createStatus(options: StatusOptions): (span: Span) => Promise<Status> {
  const { clock, board } = options;
  const factsOf = createFacts(options);
  const collect = createCollect(() => activityOf(options), board, clock);
  let known: { readonly at: number; readonly together: ReturnType<typeof collect> } | undefined;
  return async (span) => {
    const now = clock.monotonic();
    if (known === undefined || now >= known.at + FRESH_MS) known = { at: now, together: collect() };
    const facts = factsOf(await known.together, span);
    return { ...facts, sentences: sentencesOf(facts) };
  };
}

/** What the status page and the command `status` show. All values are JSON values; instants are epoch milliseconds. */
import { type AnnounceOptions, createAnnounce } from "./announce.ts";
import { createCollect, merge } from "./activity.ts";
import type { Span } from "./counters.ts";
import { activityOf, createFacts, type Facts, type StatusOptions } from "./facts.ts";
import { type HarmedApp, type Sentence, sentencesOf, shownOf, withHarm } from "./sentences.ts";

export type Status = Facts & {
  /** What an operator has to know first: at most three, the worst first. */
  readonly sentences: readonly Sentence[];
  /** Those that are hurt now come first, then those that were hurt most, then those with most calls. */
  readonly apps: readonly HarmedApp[];
};

/** Many pages may be open, so a status is computed at most this often. */
const FRESH_MS = 900;

export interface StatusSource {
  /** Reads the status of all processes. It never rejects. */
  readonly read: (span: Span) => Promise<Status>;
  /** Begins to log the sentences about this process. */
  readonly start: () => void;
  readonly stop: () => void;
}

export function createStatus(options: StatusOptions & Pick<AnnounceOptions, "say">): StatusSource {
  const { clock, board, say } = options;
  const factsOf = createFacts(options);
  const collect = createCollect(() => activityOf(options), board, clock);
  let known: { readonly at: number; readonly together: ReturnType<typeof collect> } | undefined;
  return {
    async read(span) {
      const now = clock.monotonic();
      if (known === undefined || now >= known.at + FRESH_MS) known = { at: now, together: collect() };
      const facts = factsOf(await known.together, span);
      const found = sentencesOf(facts);
      return { sentences: shownOf(found), ...facts, apps: withHarm(facts.apps, found) };
    },
    ...createAnnounce({
      clock,
      say,
      sentences: () => sentencesOf(factsOf({ ...merge([activityOf(options)]), scope: "alone" }, "15m")),
    }),
  };
}

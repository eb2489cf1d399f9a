/** What the status page and the command `status` show. All values are JSON values; instants are epoch milliseconds. */
import { type Activity, type Board, createCollect, merge } from "./activity.ts";
import type { Span } from "./counters.ts";
import { type Facts, factsOf, type FactsOptions } from "./facts.ts";
import { type HarmedApp, withHarm } from "./harm.ts";
import type { Recorder } from "./recorder.ts";
import { createSentenceLog, type SentenceLogOptions } from "./sentence-log.ts";
import { type Sentence, sentencesOf, shownOf } from "./sentence-table.ts";

export type Status = Facts & {
  /** What an operator has to know first: at most three, the worst first. */
  readonly sentences: readonly Sentence[];
  /** Those that are hurt now come first, then those that were hurt most, then those with most calls. */
  readonly apps: readonly HarmedApp[];
};

export interface StatusOptions extends FactsOptions, Pick<SentenceLogOptions, "say"> {
  readonly process: Activity["process"];
  readonly recorder: Pick<Recorder, "seen">;
  readonly outages: () => Activity["outages"];
  /** `undefined`: there are no other replicas. */
  readonly board: Board | undefined;
}

/** Many pages may be open, so a status is computed at most this often. */
const FRESH_MS = 900;

export interface StatusSource {
  /** Reads the status of all processes. It never rejects. */
  readonly read: (span: Span) => Promise<Status>;
  /** Begins to log the sentences about this process. */
  readonly start: () => void;
  readonly stop: () => void;
}

export function createStatus(options: StatusOptions): StatusSource {
  const { clock, board, say, process, recorder, outages, budgets } = options;
  const own = (): Activity => ({
    process,
    ...recorder.seen(),
    queue: { api: budgets.api.overview().queue, images: budgets.images.overview().queue },
    outages: outages(),
  });
  const collect = createCollect(own, board, clock);
  let known: { readonly at: number; readonly together: ReturnType<typeof collect> } | undefined;
  const sentencesOfThisProcess = () =>
    sentencesOf(factsOf(options, { ...merge([own()]), scope: "alone" }, "15m"));
  return {
    async read(span) {
      const now = clock.monotonic();
      if (known === undefined || now >= known.at + FRESH_MS) known = { at: now, together: collect() };
      const facts = factsOf(options, await known.together, span);
      const found = sentencesOf(facts);
      const harms = found.flatMap(({ hurt }) => hurt);
      return { sentences: shownOf(found), ...facts, apps: withHarm(facts.apps, harms) };
    },
    ...createSentenceLog({ clock, say, sentences: sentencesOfThisProcess }),
  };
}

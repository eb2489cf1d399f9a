/** What the status page and the command `status` show. All values are JSON values; instants are epoch milliseconds. */
import type { StatusTexts } from "../../redis/replica-status.ts";
import { type Activity, createCollect, merge } from "./activity.ts";
import type { Span } from "./counters.ts";
import { factsOf, type FactsOptions } from "./facts.ts";
import { withHarm } from "./hurt-apps.ts";
import type { Recorder } from "./recorder.ts";
import { createSentenceLog, type Say } from "./sentence-log.ts";
import { sentencesOf, shownOf } from "./sentence-table.ts";

export type Status = Awaited<ReturnType<StatusSource["read"]>>;

export interface StatusOptions extends FactsOptions {
  readonly process: Activity["process"];
  readonly recorder: Pick<Recorder, "seen">;
  readonly outages: () => Activity["outages"];
  /** `undefined`: there are no other replicas. */
  readonly statusTexts: StatusTexts | undefined;
  readonly say: Say;
}

export type StatusSource = ReturnType<typeof createStatus>;

// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createStatus(options: StatusOptions) {
  const { clock, statusTexts, process, recorder, outages, budgets } = options;
  function own(): Activity {
    const { counts, ...seen } = recorder.seen();
    const queues = { "queue api": budgets.api.queue(), "queue images": budgets.images.queue() };
    return { process, ...seen, counts: { ...counts, ...queues }, outages: outages() };
  }
  const collect = createCollect(own, statusTexts);
  const sentences = () => sentencesOf(factsOf(options, merge("alone", [own()]), "15m"));
  /** Reads the status of all processes. It never rejects. */
  const read = async (span: Span) => {
    const facts = factsOf(options, await collect(), span);
    const found = sentencesOf(facts);
    const harms = found.flatMap(({ hurt }) => hurt);
    // At most three sentences, the worst first. Apps that are hurt now come first, then those that were hurt most.
    return { sentences: shownOf(found), ...facts, apps: withHarm(facts.apps, harms) };
  };
  /** `start` begins to log the sentences about this process. */
  return { read, ...createSentenceLog(clock, options.say, sentences) };
}

/**
 * The metrics of callers' requests. There are many more requests than anything else, and the library looks labels up anew
 * each time. So requests that have all labels in common are counted here, and the library's counters get the sums when
 * they are read.
 */
import type { RequestRecord } from "../types.ts";
import { STORES, TRAFFIC, UPSTREAM } from "./catalogue.ts";
import type { Instruments } from "./instruments.ts";
import { type Saving, SAVINGS } from "./labels.ts";

export interface RequestMetrics {
  /** @param app the value of the label `app` */
  readonly count: (record: RequestRecord, app: string) => void;
  /** Hands the sums to the library. Call it before the counters are read. */
  readonly settle: () => void;
}

/** Requests that differ in no label. */
interface Tally extends Pick<RequestRecord, "resource" | "outcome" | "status" | "tier"> {
  readonly app: string;
  readonly saving: Saving | undefined;
  /** The labels of the histogram. */
  readonly timed: Readonly<Pick<RequestRecord, "resource" | "outcome">>;
  count: number;
}

export function registerRequestMetrics({ counter, histogram }: Instruments): RequestMetrics {
  const requests = counter(TRAFFIC.requests);
  const requestSeconds = histogram(TRAFFIC.requestSeconds);
  const callsSaved = counter(UPSTREAM.callsSaved);
  const hits = counter(STORES.hits);
  // From the start, so that the first time is an increase to Prometheus.
  for (const cause of SAVINGS) callsSaved.inc({ cause }, 0);
  /** By app. The other labels have few values. */
  const tallies = new Map<string, Tally[]>();

  function tallyOf(record: RequestRecord, app: string): Tally {
    let ofApp = tallies.get(app);
    if (ofApp === undefined) tallies.set(app, (ofApp = []));
    const saving = savingOf(record);
    for (const tally of ofApp) if (isOf(tally, record, saving)) return tally;
    const { resource, outcome, status, tier } = record;
    const tally = { app, resource, outcome, status, tier, saving, timed: { resource, outcome }, count: 0 };
    ofApp.push(tally);
    return tally;
  }

  return {
    count(record, app) {
      const tally = tallyOf(record, app);
      tally.count++;
      requestSeconds.observe(tally.timed, record.durationMs / 1000);
    },
    settle() {
      for (const { app, resource, outcome, status, tier, saving, count } of [...tallies.values()].flat()) {
        requests.inc({ app, resource, outcome, status }, count);
        if (tier !== undefined) hits.inc({ tier }, count);
        if (saving !== undefined) callsSaved.inc({ cause: saving }, count);
      }
      tallies.clear();
    },
  };
}

function isOf(tally: Tally, { resource, outcome, status, tier }: RequestRecord, saving: Saving | undefined): boolean {
  return (
    tally.outcome === outcome &&
    tally.resource === resource &&
    tally.status === status &&
    tally.tier === tier &&
    tally.saving === saving
  );
}

/** Why a request needed no call of its own; `undefined`: it needed one, or got no answer. */
function savingOf({ saved, outcome, problem }: RequestRecord): Saving | undefined {
  if (saved !== undefined) return saved;
  if (problem === "invalid-query") return "refused";
  return outcome === "hit" || outcome === "collapsed" ? outcome : undefined;
}

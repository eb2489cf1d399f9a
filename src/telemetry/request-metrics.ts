/**
 * The metrics of callers' requests. Requests are by far the most frequent events, and the library looks labels up each time
 * it counts. So this file counts the requests, and the library reads the sums at every scrape.
 */
import type { RequestRecord } from "../types.ts";
import { STORES, TRAFFIC, UPSTREAM } from "./catalogue.ts";
import type { Distribution, Instruments } from "./instruments.ts";
import { type Saving, SAVINGS } from "./labels.ts";

interface RequestMetrics {
  /** @param app the value of the label `app` */
  readonly count: (record: RequestRecord, app: string) => void;
  /** How many requests needed no upstream call of their own so far, by reason. */
  readonly saved: () => Readonly<Record<Saving, number>>;
}

type TimeLabels = Pick<RequestRecord, "resource" | "outcome">;

/** The count of requests with the same labels. */
interface Tally extends TimeLabels, Pick<RequestRecord, "status" | "tier"> {
  readonly app: string;
  readonly saving: Saving | undefined;
  readonly times: Times;
  count: number;
}

/** The durations of requests with the same resource and outcome. */
interface Times extends Distribution<keyof TimeLabels> {
  readonly counts: number[];
  sum: number;
}

const BOUNDS = TRAFFIC.requestSeconds.buckets ?? [];

export function registerRequestMetrics({ sampled, distribution }: Instruments): RequestMetrics {
  /** By app. The other labels have few values, so their tallies are in a list. */
  const tallies = new Map<string, Tally[]>();
  const times: Times[] = [];

  function timesOf({ resource, outcome }: TimeLabels): Times {
    const known = times.find(({ labels }) => labels.resource === resource && labels.outcome === outcome);
    if (known !== undefined) return known;
    const counts = Array.from({ length: BOUNDS.length + 1 }, () => 0);
    const added = { labels: { resource, outcome }, counts, sum: 0 };
    times.push(added);
    return added;
  }

  function tallyOf(record: RequestRecord, app: string): Tally {
    let ofApp = tallies.get(app);
    if (ofApp === undefined) tallies.set(app, (ofApp = []));
    const saving = savingOf(record);
    for (const tally of ofApp) if (isOf(tally, record, saving)) return tally;
    const { resource, outcome, status, tier } = record;
    const tally = { app, resource, outcome, status, tier, saving, times: timesOf(record), count: 0 };
    ofApp.push(tally);
    return tally;
  }

  const all = (): Tally[] => [...tallies.values()].flat();
  sampled(TRAFFIC.requests, () =>
    all().map(({ app, resource, outcome, status, count }) => [
      { app, resource, outcome, status: String(status) },
      count,
    ]),
  );
  sampled(STORES.hits, () =>
    all().flatMap(({ tier, count }) => (tier === undefined ? [] : [[{ tier }, count] as const])),
  );
  // Reasons that did not occur yet are exported as 0, so that Prometheus sees their first occurrence as an increase.
  function saved(): Record<Saving, number> {
    const counts = { hit: 0, collapsed: 0, folded: 0, past_end: 0, refused: 0 };
    for (const { saving, count } of all()) if (saving !== undefined) counts[saving] += count;
    return counts;
  }
  sampled(UPSTREAM.callsSaved, () => {
    const counts = saved();
    return SAVINGS.map((cause) => [{ cause }, counts[cause]] as const);
  });
  distribution(TRAFFIC.requestSeconds, () => times);

  function count(record: RequestRecord, app: string): void {
    const tally = tallyOf(record, app);
    tally.count++;
    const seconds = record.durationMs / 1000;
    const { times: taken } = tally;
    taken.sum += seconds;
    let bucket = 0;
    while (bucket < BOUNDS.length && seconds > (BOUNDS[bucket] ?? 0)) bucket++;
    taken.counts[bucket] = (taken.counts[bucket] ?? 0) + 1;
  }
  return { count, saved };
}

function isOf(tally: Tally, record: RequestRecord, saving: Saving | undefined): boolean {
  return (
    tally.outcome === record.outcome &&
    tally.resource === record.resource &&
    tally.status === record.status &&
    tally.tier === record.tier &&
    tally.saving === saving
  );
}

/** Why a request needed no call of its own; `undefined`: it needed one, or got no answer. */
export function savingOf({ saved, outcome, problem }: RequestRecord): Saving | undefined {
  if (saved !== undefined) return saved;
  if (problem === "invalid-query") return "refused";
  return outcome === "hit" || outcome === "collapsed" ? outcome : undefined;
}

/**
 * Remembers what happens in this process, for the status page. A hit costs only a few increments and look-ups. Details are
 * kept only of other requests, of calls and of warnings.
 */
import { originOf } from "../../interface/resources.ts";
import type { Clock } from "../../process/clock.ts";
import type { Observer, RequestRecord, UpstreamCallRecord } from "../../types.ts";
import { createHistory } from "./history.ts";
import { createHour } from "./hour.ts";
import { createOutageList, createProblemList } from "./trouble.ts";
import { createSeries } from "./series.ts";
import type { Activity, ProcessInfo, RecentRequest } from "./types.ts";
import { createUpstreamHealth, failureText } from "./upstream-health.ts";

export interface RecorderOptions {
  readonly clock: Clock;
  readonly process: ProcessInfo;
  /** Why a request needed no upstream call of its own. */
  readonly savingOf: (record: RequestRecord) => string | undefined;
}

export interface Recorder {
  /** @returns an observer that records each report and passes it on */
  readonly recording: (observer: Observer) => Observer;
  /** @returns everything but the queue, which the recorder does not know */
  readonly activity: () => Omit<Activity, "queue">;
  readonly historyOf: (query: string) => QueryHistory;
  readonly start: () => void;
  readonly stop: () => void;
}

export interface QueryHistory {
  /** The latest requests that were not hits, newest first. */
  readonly requests: readonly RecentRequest[];
  /** Its requests in the last hour, hits included; 0 if it is not among the queries that are counted. */
  readonly asked: number;
}

const TICK_MS = 1_000;

const BUDGET_PROBLEMS: ReadonlySet<string | undefined> = new Set([
  "quota-exceeded",
  "temporary-reduced-capacity",
]);

export function createRecorder({ clock, process, savingOf }: RecorderOptions): Recorder {
  const series = createSeries(process.startedAt);
  const hour = createHour(process.startedAt, series.outcomes);
  const problems = createProblemList(clock.now);
  const outages = createOutageList(clock.now, problems.warned);
  const health = createUpstreamHealth();
  const history = createHistory();
  let cancel = (): void => undefined;

  function tick(): void {
    series.tick(clock.now());
    hour.tick(clock.now());
    cancel = clock.after(TICK_MS, tick);
  }

  function request(record: RequestRecord): void {
    const { outcome, query, app, problem, durationMs } = record;
    const counts = hour.app(app);
    const saving = savingOf(record);
    series.add(outcome);
    counts.requests++;
    if (query !== undefined) hour.asked(query);
    if (saving !== undefined) {
      counts.saved++;
      hour.saved(saving);
    }
    if (outcome === "hit") return;
    const at = clock.now();
    history.add(record, at);
    if (outcome === "miss" && query !== undefined) hour.slow({ query, app, durationMs, at });
    if (BUDGET_PROBLEMS.has(problem)) counts.refused++;
    if (problem !== undefined) problems.add({ from: "caller", what: problem, query: query ?? null, app });
  }

  function upstreamCall(call: UpstreamCallRecord): void {
    const { resource, status, durationMs, query } = call;
    const isAnswer = health.ended(call, clock.now());
    hour.called(resource, isAnswer ? durationMs : undefined);
    series.called(originOf(resource));
    const what = `${resource}: ${failureText(status)}`;
    if (!isAnswer) problems.add({ from: "upstream", what, query, app: null });
  }

  const { began: outOfOrder, ended: backInOrder } = outages;
  const records = { request, upstreamCall, warned: problems.warned, outOfOrder, backInOrder };
  return {
    recording: (observer) => recording(observer, records),
    activity: () => ({
      processes: [process],
      ...hour.read(),
      ...series.read(clock.now()),
      upstream: Object.fromEntries(
        [...health.all()].map(([resource, state]) => [resource, { ...hour.callsOf(resource), ...state }]),
      ),
      outages: outages.list(),
      problems: problems.list(),
    }),
    historyOf: (query) => ({ requests: history.of(query), asked: hour.timesAsked(query) }),
    start: () => void (cancel = clock.after(TICK_MS, tick)),
    stop: () => cancel(),
  };
}

interface Records extends Pick<Observer, "request" | "upstreamCall" | "outOfOrder" | "backInOrder"> {
  readonly warned: (message: string) => void;
}

function recording(observer: Observer, records: Records): Observer {
  return {
    ...observer,
    request(...record) {
      observer.request(...record);
      records.request(record[0]);
    },
    upstreamCall(record) {
      observer.upstreamCall(record);
      records.upstreamCall(record);
    },
    outOfOrder(outage) {
      observer.outOfOrder(outage);
      records.outOfOrder(outage);
    },
    backInOrder(what) {
      observer.backInOrder(what);
      records.backInOrder(what);
    },
    warn(message, fields) {
      observer.warn(message, fields);
      records.warned(message);
    },
    error(message, fields) {
      observer.error(message, fields);
      records.warned(message);
    },
  };
}

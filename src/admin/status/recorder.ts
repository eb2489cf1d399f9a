/**
 * Records what happens in this process, for the status page. A hit costs a few increments. Details are kept only of other
 * requests, of calls and of warnings.
 */
import { PROBLEM_CODES } from "../../errors.ts";
import { originOf, type Resource } from "../../interface/resources.ts";
import { type Clock, every } from "../../process/clock.ts";
import type { Observer, RequestRecord, UpstreamCallRecord } from "../../telemetry/events.ts";
import { type Counters, createCounters, type Kind } from "./counters.ts";
import { createProblems, type Problems } from "./problems.ts";
import { createRecent, type Recent } from "./recent.ts";
import type { Health } from "./shapes.ts";

export interface RecorderOptions {
  readonly clock: Clock;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  /** Why a request needed no upstream call of its own. */
  readonly savingOf: (record: RequestRecord) => string | undefined;
}

const UNKNOWN: Health = {
  lastAnswerAt: null,
  lastFailureAt: null,
  lastFailure: null,
  failingSince: null,
};

export interface Recorder extends Pick<Counters, "hour" | "series">, Pick<Recent, "slowest" | "historyOf"> {
  readonly problems: Problems["read"];
  /** @returns an observer that records each report and passes it on */
  readonly recording: (observer: Observer) => Observer;
  readonly health: () => Readonly<Partial<Record<Resource, Health>>>;
  readonly start: () => void;
  readonly stop: () => void;
}

const TICK_MS = 1_000;

export function createRecorder({ clock, startedAt, savingOf }: RecorderOptions): Recorder {
  const { add, tick, hour, series } = createCounters(startedAt);
  const recent = createRecent(clock.now);
  const problems = createProblems(clock.now);
  const health = new Map<Resource, Health>();
  let cancel = (): void => undefined;

  function request(record: RequestRecord): void {
    const { outcome, query, app, problem, detail, resource, status } = record;
    const kind = kindOf(record);
    add("requests", kind);
    add(`app ${app}`, kind);
    const saving = savingOf(record);
    if (saving !== undefined && kind !== "mistakes") add("saved", saving);
    if (query !== undefined) add("asked", query);
    if (outcome === "hit") return;
    recent.request(record);
    const why = kind === "stale" ? PROBLEM_CODES.find((code) => code === detail) : problem;
    if (why === undefined || kind === "cached" || kind === "fetched" || kind === "gone") return;
    problems.add({ from: "caller", what: why, ended: kind, app, resource, status }, query);
    if (kind === "failed") add(`failures ${app}`, why);
  }

  function upstreamCall({ resource, status, durationMs, query }: UpstreamCallRecord): void {
    add("calls", originOf(resource));
    add(`calls ${resource}`, "calls");
    // It says nothing about the API.
    if (status === "given-up") return;
    const failure = failureOf(status);
    health.set(resource, healthAfter(health.get(resource) ?? UNKNOWN, failure, clock.now()));
    if (failure === null) {
      add(`calls ${resource}`, "answeredMs", durationMs);
      return problems.answered(resource);
    }
    add(`calls ${resource}`, "failed");
    problems.add({ from: "upstream", what: `${resource}: ${failure}` }, query);
  }

  const warned = (what: string): void => problems.add({ from: "gateway", what });
  return {
    hour,
    series,
    problems: problems.read,
    slowest: recent.slowest,
    historyOf: recent.historyOf,
    health: () => Object.fromEntries(health),
    start: () => void (cancel = every(clock, TICK_MS, () => tick(clock.now()))),
    stop: () => cancel(),
    recording: (observer) => ({
      ...observer,
      request: both(observer.request, request),
      upstreamCall: both(observer.upstreamCall, upstreamCall),
      outOfOrder: both(observer.outOfOrder, problems.outageBegan),
      backInOrder: both(observer.backInOrder, problems.outageEnded),
      warn: both(observer.warn, warned),
      error: both(observer.error, warned),
    }),
  };
}

function both<Args extends unknown[]>(
  one: (...args: Args) => void,
  other: (...args: Args) => void,
): (...args: Args) => void {
  return (...args) => {
    one(...args);
    other(...args);
  };
}

const BUDGET_PROBLEMS: ReadonlySet<string> = new Set(["quota-exceeded", "temporary-reduced-capacity"]);

function kindOf({ outcome, problem, status }: RequestRecord): Kind {
  if (outcome === "abandoned") return "gone";
  if (problem !== undefined && BUDGET_PROBLEMS.has(problem)) return "refused";
  if (problem === "not-in-cache") return "mistakes";
  if (status >= 500) return "failed";
  // A record that does not exist is an answer.
  if (status >= 400 && status !== 404) return "mistakes";
  if (outcome === "refused" || outcome === "failed") return status < 500 ? "mistakes" : "failed";
  if (outcome === "stale") return "stale";
  return outcome === "miss" || outcome === "bypass" ? "fetched" : "cached";
}

/** @returns `null` if the upstream answered the query. A 404 is an answer; a rejection of the credentials is not. */
function failureOf(status: UpstreamCallRecord["status"]): string | null {
  if (typeof status !== "number") return status;
  return status < 500 && ![401, 403, 429].includes(status) ? null : `status ${status}`;
}

function healthAfter(before: Health, failure: string | null, at: number): Health {
  return failure === null
    ? { ...before, lastAnswerAt: at, failingSince: null }
    : { ...before, lastFailureAt: at, lastFailure: failure, failingSince: before.failingSince ?? at };
}

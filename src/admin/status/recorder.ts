/**
 * Records what happens in this process, for the status page. A hit costs a few increments. Details are kept only of other
 * requests, of calls and of warnings.
 */
import { BUDGET_SPENT, PROBLEM_CODES } from "../../errors.ts";
import { originOf, type Resource } from "../../interface/resources.ts";
import type { Outage, RequestRecord, UpstreamCallRecord } from "../../telemetry/events.ts";
import { createCounters, type Kind } from "./counters.ts";
import { createProblems } from "./problems.ts";

/** A request that was not a hit, and when it ended. */
export type Miss = RequestRecord & { readonly endedAt: number };

export type Recorder = ReturnType<typeof createRecorder>;

/** How the latest calls for a resource ended. `failingSince`: the first failure after the latest answer. */
export interface Health {
  readonly lastAnswerAt: number | null;
  readonly lastFailureAt: number | null;
  readonly lastFailure: string | null;
  readonly failingSince: number | null;
}

const HOUR_MS = 60 * 60_000;
/** The most requests that are remembered because they were not hits, of all queries together. */
const MOST_MISSES = 2_000;
/** The most requests that are shown of one query. */
const MOST_SHOWN = 50;
const MOST_SLOW = 10;
const UNKNOWN: Health = { lastAnswerAt: null, lastFailureAt: null, lastFailure: null, failingSince: null };

/**
 * @param now epoch milliseconds
 * @param savingOf returns why a request needed no upstream call of its own
 */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createRecorder(now: () => number, savingOf: (record: RequestRecord) => string | undefined) {
  const { add, hour, series } = createCounters(now);
  const problems = createProblems(now);
  const misses = createMisses(now);
  const health = new Map<Resource, Health>();

  function request(record: RequestRecord): void {
    const { outcome, query, app, problem, detail, resource, status } = record;
    const at = now();
    const kind = kindOf(record);
    add(at, "requests", kind);
    add(at, `app ${app}`, kind);
    const saving = savingOf(record);
    if (saving !== undefined && kind !== "mistakes") add(at, "saved", saving);
    if (query !== undefined) add(at, "asked", query);
    if (outcome === "hit") return;
    misses.add(record);
    const why = kind === "stale" ? PROBLEM_CODES.find((code) => code === detail) : problem;
    if (why === undefined || kind === "cached" || kind === "fetched" || kind === "gone") return;
    problems.add({ from: "caller", what: why, ended: kind, app, resource, status }, query);
    if (kind === "failed") add(at, `failures ${app}`, why);
  }

  function upstreamCall({ resource, status, durationMs, query }: UpstreamCallRecord): void {
    const calls = `calls ${resource}`;
    const at = now();
    add(at, "calls", originOf(resource));
    add(at, calls, "calls");
    // It says nothing about the API.
    if (status === "given-up") return;
    const failure = failureOf(status);
    const before = health.get(resource) ?? UNKNOWN;
    if (failure === null) {
      health.set(resource, { ...before, lastAnswerAt: at, failingSince: null });
      add(at, calls, "answeredMs", durationMs);
      return problems.answered(resource);
    }
    const failingSince = before.failingSince ?? at;
    health.set(resource, { ...before, lastFailureAt: at, lastFailure: failure, failingSince });
    add(at, calls, "failed");
    problems.add({ from: "upstream", what: `${resource}: ${failure}` }, query);
  }

  const warn = (what: string): void => problems.add({ from: "gateway", what });
  /** What this process saw in the last hour. */
  const seen = () => ({
    ...hour(),
    /** By period of the chart. */
    series: series(),
    health: Object.fromEntries(health),
    slowest: misses.slowest(),
    problems: problems.read(),
  });
  const outageBegan = ({ what, cause }: Outage): void => warn(`${what} does not work: ${cause}.`);
  return { seen, missesOf: misses.of, outageBegan, listener: { request, upstreamCall, warn, error: warn } };
}

/** Remembers the latest requests that were not hits. */
function createMisses(now: () => number) {
  const misses: Miss[] = [];
  return {
    add(record: RequestRecord): void {
      misses.push({ ...record, endedAt: now() });
      if (misses.length > MOST_MISSES) misses.shift();
    },
    /** The latest requests for a query, the newest first. */
    of: (query: string): readonly Miss[] => {
      const asked = misses.filter((miss) => miss.query === query);
      return asked.slice(-MOST_SHOWN).toReversed();
    },
    slowest() {
      const fetched = misses.filter(
        ({ outcome, endedAt }) => outcome === "miss" && now() - endedAt < HOUR_MS,
      );
      return slowestOf(
        fetched.map(({ query = "", app, durationMs, endedAt: at }) => ({ query, app, durationMs, at })),
      );
    },
  };
}

/** A request that waited for the upstream. */
type SlowRequest = Pick<RequestRecord, "app" | "durationMs"> & {
  readonly query: string;
  readonly at: number;
};

/** @returns the slowest requests, each query once */
export function slowestOf(requests: readonly SlowRequest[]): SlowRequest[] {
  const slowestLast = requests.toSorted((a, b) => a.durationMs - b.durationMs);
  const byQuery = new Map(slowestLast.map((request) => [request.query, request]));
  return [...byQuery.values()].toReversed().slice(0, MOST_SLOW);
}

function kindOf({ outcome, problem, status }: RequestRecord): Kind {
  if (outcome === "abandoned") return "gone";
  if (problem !== undefined && BUDGET_SPENT.has(problem)) return "refused";
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

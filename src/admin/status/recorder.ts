/**
 * Records what happens in this process, for the status page. A hit costs a few increments. Details are kept only of other
 * requests, of calls and of warnings.
 */
import { BUDGET_SPENT, PROBLEM_CODES } from "../../errors.ts";
import { originOf } from "../../interface/resources.ts";
import { type RequestRecord, savingOf, type UpstreamCallRecord } from "../../telemetry/events.ts";
import { createCounters, type RequestKind } from "./counters.ts";
import { createProblems, HOUR_MS } from "./recent-problems.ts";

/** A request that was not a hit, and when it ended. */
export type Miss = RequestRecord & { readonly at: number };

export type Recorder = ReturnType<typeof createRecorder>;

/** The most requests that are remembered because they were not hits, of all queries together. */
const MOST_MISSES = 2_000;
/** The most requests that are shown of one query. */
const MOST_SHOWN = 50;
const MOST_SLOW = 10;

/** @param now epoch milliseconds */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createRecorder(now: () => number) {
  const { add, read: counted } = createCounters(now);
  const problems = createProblems(now);
  const misses: Miss[] = [];

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
    misses.push({ ...record, at });
    if (misses.length > MOST_MISSES) misses.shift();
    const why = kind === "stale" ? PROBLEM_CODES.find((code) => code === detail) : problem;
    if (why === undefined || kind === "cached" || kind === "fetched" || kind === "gone") return;
    problems.add({ from: "caller", what: why, ended: kind, app, resource, status }, query);
    if (kind === "failed") add(at, `failures ${app}`, why);
  }

  function upstreamCall({ resource, status, durationMs, query, note }: UpstreamCallRecord): void {
    const calls = `calls ${resource}`;
    const at = now();
    add(at, "calls", originOf(resource));
    add(at, calls, "calls");
    // It says nothing about the API.
    if (status === "given-up") return add(at, calls, "givenUp");
    const failure = failureOf(status, note);
    if (failure === null) {
      add(at, calls, "answeredMs", durationMs);
      return problems.answered(resource);
    }
    add(at, calls, "failed");
    problems.add({ from: "upstream", what: failure, resource }, query);
  }

  /** What this process saw in the last hour. */
  const seen = () => ({
    ...counted(),
    ...problems.read(),
    slowest: slowestOf(misses.filter(({ outcome, at }) => outcome === "miss" && now() - at < HOUR_MS)),
  });
  return {
    seen,
    request,
    upstreamCall,
    /** A warning or an error in the log, or an outage that began. */
    warn: (what: string): void => problems.add({ from: "gateway", what }),
    /** The latest requests for a query that were not hits, the newest first. */
    missesOf: (query: string): readonly Miss[] =>
      misses
        .filter((miss) => miss.query === query)
        .slice(-MOST_SHOWN)
        .toReversed(),
  };
}

/** A request that waited for the upstream. */
type SlowRequest = Pick<Miss, "query" | "app" | "durationMs" | "at">;

/** @returns the slowest requests, each query once */
export function slowestOf(requests: readonly SlowRequest[]): SlowRequest[] {
  const slowestLast = requests.toSorted((a, b) => a.durationMs - b.durationMs);
  const byQuery = new Map(slowestLast.map((request) => [request.query, request]));
  const slowest = [...byQuery.values()].toReversed().slice(0, MOST_SLOW);
  return slowest.map(({ query = "", app, durationMs, at }) => ({ query, app, durationMs, at }));
}

function kindOf({ outcome, problem, status }: RequestRecord): RequestKind {
  if (outcome === "abandoned") return "gone";
  if (problem !== undefined && BUDGET_SPENT.has(problem)) return "refused";
  if (status >= 500 && problem !== "not-in-cache") return "failed";
  // A record that does not exist is an answer.
  if ((status >= 400 && status !== 404) || outcome === "refused" || outcome === "failed") return "mistakes";
  if (outcome === "stale") return "stale";
  return outcome === "miss" || outcome === "bypass" ? "fetched" : "cached";
}

/** @returns `null` if the upstream answered the query. A 404 is an answer; a rejection of the credentials is not. */
function failureOf(status: UpstreamCallRecord["status"], note: string | undefined): string | null {
  // The note says whether the name, the connection or the certificate is the cause.
  if (typeof status !== "number") return (status === "unreachable" ? note : undefined) ?? status;
  return status < 500 && ![401, 403, 429].includes(status) ? null : `status ${status}`;
}

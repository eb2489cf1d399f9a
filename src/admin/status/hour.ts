/**
 * Counts the requests and calls of the last hour, in bounded memory. The hour consists of slots of five minutes. The oldest
 * slot is dropped as a whole.
 */
import type { Resource } from "../../interface/resources.ts";
import { OTHER_APP, type Outcome } from "../../types.ts";
import { type Counted, createTop, sumOf, type Top } from "./top.ts";
import type { AppActivity, OutcomeCounts, SlowRequest } from "./types.ts";

const SLOT_MS = 5 * 60_000;
const SLOTS = 12;
const MOST_APPS = 200;
const MOST_QUERIES = 400;
const MOST_SLOW = 10;
/** Up to this many requests per second are counted one by one. Of the others, each `SAMPLE`-th counts `SAMPLE` times. */
const COUNTED_EXACTLY = 100;
/** A prime, so that a repeating pattern of requests rarely has the same period. */
const SAMPLE = 17;
/** The most apps, and the most queries, that are listed. */
const MOST_LISTED = 30;

/** The number of requests of each outcome since the start of the process. */
type Outcomes = ReadonlyMap<Outcome, number>;

interface AppCounts {
  requests: number;
  saved: number;
  refused: number;
}

export interface CallCounts {
  readonly calls: number;
  readonly failed: number;
  readonly answeredMs: number;
}

export interface Hour {
  /** @returns the counts of an app, to increment */
  readonly app: (app: string) => AppCounts;
  readonly asked: (query: string) => void;
  readonly saved: (reason: string) => void;
  readonly slow: (request: SlowRequest) => void;
  /** A call has ended. @param answeredMs how long the answer took; `undefined`: it failed */
  readonly called: (resource: Resource, answeredMs: number | undefined) => void;
  /** Called every second. */
  readonly tick: (now: number) => void;
  readonly read: () => {
    readonly sinceAt: number;
    readonly outcomes: OutcomeCounts;
    readonly saved: Readonly<Record<string, number>>;
    readonly apps: readonly AppActivity[];
    readonly asked: readonly Counted[];
    readonly slowest: readonly SlowRequest[];
  };
  readonly callsOf: (resource: Resource) => CallCounts;
  /** The number of requests for a query; 0 if the query is not among those that are counted. */
  readonly timesAsked: (query: string) => number;
}

interface Slot {
  readonly beganAt: number;
  readonly outcomesBefore: Outcomes;
  readonly saved: Map<string, number>;
  readonly apps: Map<string, AppCounts>;
  readonly asked: Top;
  readonly calls: Map<Resource, CallCounts>;
  slowest: SlowRequest[];
}

export function createHour(startedAt: number, outcomes: () => Outcomes): Hour {
  const begin = (now: number): Slot => createSlot(now, outcomes());
  let slot = begin(startedAt);
  let slots: readonly Slot[] = [slot];
  let askedInThisSecond = 0;

  return {
    app: (app) => appIn(slot, app),
    asked(query) {
      askedInThisSecond++;
      if (askedInThisSecond <= COUNTED_EXACTLY) slot.asked.add(query);
      else if (askedInThisSecond % SAMPLE === 0) slot.asked.add(query, SAMPLE);
    },
    saved: (reason) => void slot.saved.set(reason, (slot.saved.get(reason) ?? 0) + 1),
    slow(request) {
      const fastest = slot.slowest.length < MOST_SLOW ? 0 : (slot.slowest.at(-1)?.durationMs ?? 0);
      if (request.durationMs >= fastest) slot.slowest = slowestOf([...slot.slowest, request]);
    },
    called(resource, answeredMs) {
      const { calls, failed, answeredMs: sum } = slot.calls.get(resource) ?? NO_CALLS;
      slot.calls.set(resource, {
        calls: calls + 1,
        failed: failed + (answeredMs === undefined ? 1 : 0),
        answeredMs: sum + (answeredMs ?? 0),
      });
    },
    tick(now) {
      askedInThisSecond = 0;
      const age = now - slot.beganAt;
      if (age >= 0 && age < SLOT_MS) return;
      slot = begin(now);
      slots = [slot, ...slots].slice(0, SLOTS);
    },
    read() {
      const oldest = slots.at(-1) ?? slot;
      return {
        sinceAt: oldest.beganAt,
        outcomes: differences(oldest.outcomesBefore, outcomes()),
        saved: sumCounts(slots.map(({ saved }) => Object.fromEntries(saved))),
        apps: sumApps(slots.flatMap(appsOf)).slice(0, MOST_LISTED),
        asked: sumOf(
          slots.map(({ asked }) => asked.list(MOST_LISTED)),
          MOST_LISTED,
        ),
        slowest: slowestOf(slots.flatMap(({ slowest }) => slowest)),
      };
    },
    callsOf: (resource) => sumCalls(slots.map(({ calls }) => calls.get(resource) ?? NO_CALLS)),
    timesAsked: (query) => slots.reduce((sum, { asked }) => sum + asked.countOf(query), 0),
  };
}

const NO_CALLS: CallCounts = { calls: 0, failed: 0, answeredMs: 0 };

function createSlot(beganAt: number, outcomesBefore: Outcomes): Slot {
  return {
    beganAt,
    outcomesBefore,
    saved: new Map(),
    apps: new Map(),
    asked: createTop(MOST_QUERIES),
    calls: new Map(),
    slowest: [],
  };
}

function appIn(slot: Slot, app: string): AppCounts {
  const known = slot.apps.get(app);
  if (known !== undefined) return known;
  if (slot.apps.size >= MOST_APPS && app !== OTHER_APP) return appIn(slot, OTHER_APP);
  const counts = { requests: 0, saved: 0, refused: 0 };
  slot.apps.set(app, counts);
  return counts;
}

function appsOf({ apps }: Slot): AppActivity[] {
  return [...apps].map(([app, counts]) => ({ app, ...counts }));
}

function differences(before: Outcomes, now: Outcomes): OutcomeCounts {
  const counts = [...now].map(([outcome, count]) => [outcome, count - (before.get(outcome) ?? 0)] as const);
  return Object.fromEntries(counts.filter(([, count]) => count > 0));
}

/** @returns the slowest requests, each query once */
export function slowestOf(requests: readonly SlowRequest[]): SlowRequest[] {
  const byQuery = new Map<string, SlowRequest>();
  for (const request of requests.toSorted((a, b) => b.durationMs - a.durationMs))
    if (!byQuery.has(request.query)) byQuery.set(request.query, request);
  return [...byQuery.values()].slice(0, MOST_SLOW);
}

/** @returns one line for each app, most requests first */
export function sumApps(lines: readonly AppActivity[]): AppActivity[] {
  const sums = Map.groupBy(lines, ({ app }) => app);
  return [...sums]
    .map(([app, of]) => ({
      app,
      requests: sum(of.map(({ requests }) => requests)),
      saved: sum(of.map(({ saved }) => saved)),
      refused: sum(of.map(({ refused }) => refused)),
    }))
    .sort((a, b) => b.requests - a.requests);
}

export function sumCalls(counts: readonly CallCounts[]): CallCounts {
  return {
    calls: sum(counts.map(({ calls }) => calls)),
    failed: sum(counts.map(({ failed }) => failed)),
    answeredMs: sum(counts.map(({ answeredMs }) => answeredMs)),
  };
}

/** @returns the sum of each count by name */
export function sumCounts(
  all: readonly Readonly<Record<string, number | undefined>>[],
): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const counts of all)
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + (count ?? 0);
  return sums;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** What the status page is made of. */
import { describe, expect, it } from "vitest";

import { forecast } from "../../../src/admin/status/forecast.ts";
import { merge } from "../../../src/admin/status/merge.ts";
import { createRecorder, type Recorder } from "../../../src/admin/status/recorder.ts";
import { createTop } from "../../../src/admin/status/top.ts";
import type { Activity } from "../../../src/admin/status/types.ts";
import { savingOf } from "../../../src/telemetry/metrics.ts";
import type { Observer, RequestRecord, UpstreamCallRecord } from "../../../src/types.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { HIT } from "../../support/request-record.ts";
import { SILENT } from "../../support/silent-observer.ts";

const CALL: UpstreamCallRecord = {
  resource: "sold",
  query: "sold?offset=0",
  cause: "miss",
  status: 200,
  durationMs: 100,
  bytes: 10,
};
/** The beginning of a step of the series, so that counts fall into known steps. */
const NOON = Date.UTC(2026, 0, 15, 12);

interface Recording {
  readonly clock: FakeClock;
  readonly recorder: Recorder;
  readonly request: (fields?: Partial<RequestRecord>) => void;
  readonly call: (fields?: Partial<UpstreamCallRecord>) => void;
  readonly observer: Observer;
  readonly activity: () => Activity;
}

function record(id = "one", startedAt = NOON): Recording {
  const clock = createFakeClock(startedAt);
  const process = { id, host: "host", version: "1.2.3", startedAt };
  const recorder = createRecorder({ clock, process, savingOf });
  const observer = recorder.recording(SILENT);
  recorder.start();
  return {
    clock,
    recorder,
    request: (fields) => observer.request({ ...HIT, ...fields }),
    call: (fields) => observer.upstreamCall({ ...CALL, ...fields }),
    observer,
    activity: () => ({ ...recorder.activity(), queue: { api: { interactive: 1 }, images: {} } }),
  };
}

describe("the most frequent keys", () => {
  it("are found among more keys than fit, with counts that are never too low", () => {
    const top = createTop(20);
    for (let at = 0; at < 5_000; at++) {
      top.add(`rare ${at}`);
      if (at % 2 === 0) top.add("often");
      if (at % 5 === 0) top.add("sometimes");
    }
    expect(top.list(2).map(({ key }) => key)).toEqual(["often", "sometimes"]);
    expect(top.countOf("often")).toBeGreaterThanOrEqual(2_500);
    expect(top.countOf("rare 1")).toBe(0);
    expect(top.list(100).length).toBeLessThanOrEqual(20);
  });
});

describe("the recorder", () => {
  it("counts requests by outcome, app, query and saving, for an hour", async () => {
    const { clock, request, activity } = record();
    for (let at = 0; at < 10; at++) request();
    request({ outcome: "miss", tier: undefined, app: "feed", durationMs: 300 });
    request({ outcome: "refused", status: 429, problem: "quota-exceeded", app: "feed" });
    await clock.advance(5_000);
    const now = activity();
    expect(now).toMatchObject({
      sinceAt: NOON,
      outcomes: { hit: 10, miss: 1, refused: 1 },
      saved: { hit: 10 },
      apps: [
        { app: "web", requests: 10, saved: 10, refused: 0 },
        { app: "feed", requests: 2, saved: 0, refused: 1 },
      ],
      asked: [{ key: "listings?offset=0", count: 12 }],
      slowest: [{ query: "listings?offset=0", app: "feed", durationMs: 300 }],
      perSecond: { hit: 2, miss: 0.2, refused: 0.2 },
    });
    expect(now.series.counts.hit?.at(-1)).toBe(10);
    expect(now.problems).toMatchObject([{ from: "caller", what: "quota-exceeded", count: 1, app: "feed" }]);
    await clock.advance(70 * 60_000);
    expect(activity()).toMatchObject({
      outcomes: {},
      saved: {},
      apps: [],
      asked: [],
      slowest: [],
      problems: [],
    });
  });

  it("samples the queries above a number of requests per second", () => {
    const { request, activity } = record();
    for (let at = 0; at < 20_000; at++) request({ query: at % 4 === 0 ? "rare" : "often" });
    const [often, rare] = activity().asked.map(({ count }) => count);
    expect([often, rare]).toEqual([expect.closeTo(15_000, -2.5), expect.closeTo(5_000, -2.5)]);
  });

  it("shows since when calls fail, until they succeed", async () => {
    const { clock, call, activity } = record();
    call();
    await clock.advance(1_000);
    call({ status: 503 });
    await clock.advance(1_000);
    call({ status: "reset" });
    expect(activity().upstream.sold).toEqual({
      calls: 3,
      failed: 2,
      answeredMs: 100,
      lastAnswerAt: NOON,
      lastFailureAt: NOON + 2_000,
      lastFailure: "reset",
      failingSince: NOON + 1_000,
    });
    call({ status: 404 });
    expect(activity().upstream.sold).toMatchObject({ failed: 2, failingSince: null });
  });

  it("remembers why the latest requests of a query were no hits", () => {
    const { recorder, request } = record();
    request({ outcome: "miss", forwarded: "stale" });
    request();
    request({ outcome: "stale", forwarded: undefined, detail: "quota-exceeded" });
    request({ outcome: "miss", forwarded: "miss", query: "sold?offset=0" });
    const { requests, asked } = recorder.historyOf("listings?offset=0");
    expect(asked).toBe(3);
    expect(requests.map(({ why }) => why)).toEqual([
      "The cached answer had expired. It was served because no newer one was available (quota-exceeded).",
      "The cached answer had expired, or was purged.",
    ]);
  });

  it("counts a problem once for each kind, with its first and last time", async () => {
    const { clock, request, observer, activity } = record();
    for (const app of ["web", "feed"]) {
      request({ outcome: "failed", status: 502, problem: "upstream-error", app });
      await clock.advance(60_000);
    }
    observer.warn("Something is odd.", {});
    expect(activity().problems).toMatchObject([
      { from: "gateway", what: "Something is odd.", count: 1 },
      { what: "upstream-error", count: 2, firstAt: NOON, lastAt: NOON + 60_000, app: "feed" },
    ]);
  });
});

describe("an outage", () => {
  it("is shown until it ends, and stays in the list of problems", async () => {
    const { clock, observer, activity } = record();
    const outage = { what: "Redis", cause: "timeout", meanwhile: "Callers get answers." };
    observer.outOfOrder(outage);
    await clock.advance(1_000);
    observer.outOfOrder({ ...outage, cause: "another" });
    expect(activity().outages).toEqual([{ ...outage, since: NOON }]);
    observer.backInOrder("Redis");
    expect(activity()).toMatchObject({
      outages: [],
      problems: [{ from: "gateway", what: "Redis is out of order: timeout.", count: 1 }],
    });
  });
});

describe("the sum of several processes", () => {
  it("adds counts, and aligns series that are a step apart", async () => {
    const [own, other] = [record("one"), record("two", NOON + 5_000)];
    own.request();
    await own.clock.advance(5_000);
    own.request({ app: "feed" });
    await own.clock.advance(5_000);
    other.request({ outcome: "miss" });
    await other.clock.advance(5_000);
    const sum = merge([own.activity(), other.activity()]);
    expect(sum.processes.map(({ id }) => id)).toEqual(["one", "two"]);
    expect(sum).toMatchObject({
      outcomes: { hit: 2, miss: 1 },
      apps: [{ app: "web", requests: 2 }, { app: "feed" }],
      asked: [{ count: 3 }],
      queue: { api: { interactive: 2 } },
    });
    expect(sum.series.counts.hit?.slice(-2)).toEqual([1, 1]);
    expect(sum.series.counts.miss?.slice(-2)).toEqual([0, 1]);
  });

  it("shows the API as failing until some process gets an answer after the latest failure", async () => {
    const [own, other] = [record("one"), record("two")];
    own.call({ status: 500 });
    await own.clock.advance(1_000);
    own.call({ status: 500 });
    expect(merge([own.activity(), other.activity()]).upstream.sold).toMatchObject({ failingSince: NOON });
    await other.clock.advance(2_000);
    other.call();
    expect(merge([own.activity(), other.activity()]).upstream.sold).toMatchObject({
      calls: 3,
      failed: 2,
      failingSince: null,
    });
  });
});

describe("the forecast of a window", () => {
  const window = { limit: 100, windowMs: 60_000, periodsMs: [10_000, 60_000] };

  it.each([
    ["no calls", { spent: 0, remaining: 100, callsPerSecond: [0, 0] }, { load: 0, emptyInMs: null }],
    [
      "half of the rate",
      { spent: 50, remaining: 50, callsPerSecond: [5 / 6, 9] },
      { load: 0.5, emptyInMs: null },
    ],
    [
      "twice the rate",
      { spent: 50, remaining: 50, callsPerSecond: [20 / 6, 0] },
      { load: 2, emptyInMs: 20_000 },
    ],
    [
      "more coming back",
      { spent: 100, remaining: 0, callsPerSecond: [1.7, 0] },
      { load: 1.02, emptyInMs: 0 },
    ],
  ])("shows with %s when it is empty", (_name, input, expected) => {
    const { load, emptyInMs } = forecast({ ...window, ...input });
    expect([load, emptyInMs]).toEqual([expect.closeTo(expected.load), expected.emptyInMs]);
  });

  it("uses the rate of a longer period for a longer window", () => {
    const day = { limit: 100, windowMs: 86_400_000, spent: 0, remaining: 100 };
    const { load } = forecast({ ...day, callsPerSecond: [9, 0], periodsMs: [10_000, 60_000] });
    expect(load).toBe(0);
  });
});

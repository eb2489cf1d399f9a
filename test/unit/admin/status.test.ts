/** What the status page is made of. */
import { describe, expect, it } from "vitest";

import { type Activity, createCollect, merge } from "../../../src/admin/status/activity.ts";
import { createCounters, SPANS } from "../../../src/admin/status/counters.ts";
import { createRecorder } from "../../../src/admin/status/recorder.ts";
import { emptyInMs, upstreamOf } from "../../../src/admin/status/facts.ts";
import { createLogger } from "../../../src/telemetry/log.ts";
import { createOutages } from "../../../src/telemetry/outage-log.ts";
import type { RequestRecord, UpstreamCallRecord } from "../../../src/telemetry/events.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { CALL, HIT } from "../../support/request-record.ts";

/** The beginning of a step of each series, so that counts fall into known steps. */
const NOON = Date.UTC(2026, 0, 15, 12);
const MINUTE = 60_000;

function record() {
  const clock = createFakeClock(NOON);
  const recorder = createRecorder(clock.now);
  const log = createLogger({ level: "silent", secrets: [], destination: { write: () => undefined } });
  const outages = createOutages(log, clock.now, recorder.warn);
  return {
    clock,
    recorder,
    request: (fields: Partial<RequestRecord> = {}) => recorder.request({ ...HIT, ...fields }),
    call: (fields: Partial<UpstreamCallRecord> = {}) => recorder.upstreamCall({ ...CALL, ...fields }),
    outages,
    activity: (): Activity => ({
      process: { id: "one", host: "host", version: "1.2.3", startedAt: NOON },
      ...recorder.seen(),
      outages: outages.current(),
    }),
  };
}

describe("the recorder", () => {
  it.each([
    ["cached", { outcome: "hit" }],
    ["cached", { outcome: "collapsed" }],
    ["cached", { outcome: "updating" }],
    ["stale", { outcome: "stale", detail: "upstream-error" }],
    ["fetched", { outcome: "miss" }],
    ["fetched", { outcome: "miss", status: 404, problem: "not-found" }],
    ["refused", { outcome: "refused", status: 429, problem: "quota-exceeded" }],
    ["refused", { outcome: "refused", status: 503, problem: "temporary-reduced-capacity" }],
    ["failed", { outcome: "failed", status: 502, problem: "upstream-error" }],
    ["failed", { outcome: "refused", status: 503, problem: "upstream-unavailable" }],
    ["mistakes", { outcome: "refused", status: 400, problem: "invalid-query" }],
    ["mistakes", { outcome: "miss", status: 400, problem: "upstream-rejected" }],
    ["mistakes", { outcome: "refused", status: 504, problem: "not-in-cache" }],
    ["gone", { outcome: "abandoned", status: 499 }],
  ] as const)("counts as %s: %o", (kind, fields) => {
    const { request, activity } = record();
    request(fields);
    const { counts } = activity();
    expect([counts["requests"], counts["app web"]]).toEqual([{ [kind]: 1 }, { [kind]: 1 }]);
  });

  it("counts queries, savings, the causes of failures, and each kind of problem, for an hour", async () => {
    const { clock, request, activity } = record();
    for (let at = 0; at < 10; at++) request();
    request({ outcome: "miss", tier: undefined, app: "feed", durationMs: 300 });
    for (const app of ["feed", "web", "feed"]) {
      await clock.advance(MINUTE);
      request({ outcome: "failed", status: 502, problem: "upstream-error", app });
    }
    const problem = { from: "caller", what: "upstream-error", ended: "failed", status: 502 };
    expect(activity()).toMatchObject({
      sinceAt: NOON,
      counts: {
        saved: { hit: 10 },
        asked: { "listings?offset=0": 14 },
        "failures feed": { "upstream-error": 2 },
      },
      slowest: [{ query: "listings?offset=0", app: "feed", durationMs: 300 }],
      problems: [
        { ...problem, app: "feed", count: 2, firstAt: NOON + MINUTE, lastAt: NOON + 3 * MINUTE },
        { ...problem, app: "web", count: 1 },
      ],
    });
    await clock.advance(70 * MINUTE);
    const { counts, problems, slowest } = activity();
    const hour = Object.keys(counts).filter((group) => !/^\d/.test(group));
    expect([hour, problems, slowest]).toEqual([[], [], []]);
  });

  it("shows since when calls fail, until they succeed; a call that was given up says nothing", async () => {
    const { clock, call, activity } = record();
    const upstream = () => upstreamOf(merge("alone", [activity()]));
    call();
    await clock.advance(1_000);
    call({ status: 503 });
    await clock.advance(1_000);
    call({ status: "unreachable", note: "unreachable: ENOTFOUND" });
    call({ status: "given-up" });
    const at = { lastAnswerAt: NOON, lastFailureAt: NOON + 2_000, failingSince: NOON + 1_000 };
    const lastFailure = "unreachable: ENOTFOUND";
    expect(upstream().sold).toEqual({ ...at, lastFailure, calls: 4, failed: 2, meanMs: 100 });
    call({ status: 404 });
    expect(upstream().sold).toMatchObject({ failingSince: null });
    call({ status: 429 });
    expect(upstream().sold).toMatchObject({ lastFailure: "status 429", failed: 3 });
  });

  it("says since when errors and outages last", async () => {
    const { clock, request, call, outages, activity } = record();
    const names = ["the ledger on disk", "Redis"];
    function fail(): void {
      request({ outcome: "failed", status: 502, problem: "upstream-error", app: "web", resource: "sold" });
      for (const what of names) outages.outOfOrder({ what, cause: "", meanwhile: "" });
    }
    const end = (): void => names.forEach(outages.backInOrder);
    function beginnings(): (number | undefined)[] {
      const { outages: current, problems } = activity();
      return [problems.find(({ from }) => from === "caller")?.firstAt, ...current.map(({ since }) => since)];
    }
    fail();
    end();
    await clock.advance(MINUTE - 1);
    fail();
    expect(beginnings()).toEqual([NOON, NOON + MINUTE - 1, NOON + MINUTE - 1]);
    await clock.advance(1);
    call();
    end();
    await clock.advance(MINUTE);
    fail();
    const again = NOON + 2 * MINUTE;
    expect(beginnings()).toEqual([again, again, again]);
  });
});

describe("the counters", () => {
  it("find the frequent names among more than they keep", () => {
    const { add, read } = createCounters(() => NOON);
    for (let at = 0; at < 5_000; at++) {
      add(NOON, "asked", `rare ${at}`);
      if (at % 2 === 0) add(NOON, "asked", "often");
    }
    const asked = read().counts["asked"] ?? {};
    expect([asked["often"], Object.keys(asked).length <= 400]).toEqual([2_500, true]);
  });

  it("have a series for each period, and begin again if the clock jumps", () => {
    let at = NOON;
    const { add, read } = createCounters(() => at);
    for (; at < NOON + 30 * MINUTE; at += 1_000) add(at, "requests", "cached");
    const counted = (): number[][] =>
      Object.keys(SPANS).map((span) =>
        Object.entries(read().counts).flatMap(([group, { cached = 0 }]) =>
          group.startsWith(`${span} `) && cached > 0 ? [cached] : [],
        ),
      );
    expect(counted()).toEqual([Array(180).fill(5), Array(90).fill(20), [480, 480, 480, 360]]);
    at = NOON + 20 * MINUTE;
    for (const later of [at, at + 5_000]) add((at = later), "requests", "cached");
    expect(counted()[0]?.slice(-2)).toEqual([6, 1]);
    // The oldest five minutes are dropped as a whole.
    const inLastHour = [59, 60].map((minute) => {
      at = NOON + minute * MINUTE;
      return read().counts["requests"]?.["cached"];
    });
    expect(inLastHour).toEqual([1_502, 1_202]);
    at = NOON - MINUTE;
    expect(counted()).toEqual([[], [], []]);
  });
});

it("the activities of several processes are read in the form in which they are written, and ignored in that of another release", async () => {
  const { activity } = record();
  let write = (): string => "";
  const board = {
    show: (given: () => string) => void (write = given),
    look: async () => [write(), JSON.stringify({ ...Object(JSON.parse(write())), form: 0 }), '{ "at": 1 }'],
  };
  const collected = createCollect(activity, board)();
  const { processes, scope } = await collected;
  expect([scope, processes.map(({ id }) => id)]).toEqual(["all", ["one", "one"]]);
});

const HOUR = 60 * MINUTE;
it.each<[string, number, number[], number, number | null]>([
  ["a rate that the limit allows", 24 * HOUR, Array(120).fill(0.125), 0, null],
  ["an empty window", 24 * HOUR, Array(120).fill(200 / 720), 0, 12 * HOUR],
  ["a half-full window", 24 * HOUR, Array(120).fill(200 / 720), 1_200, 8 * HOUR],
  ["a window shorter than an hour", MINUTE, Array(120).fill(1_000), 1_200, null],
  ["less than ten minutes", 24 * HOUR, Array(119).fill(1), 0, null],
  ["calls that stopped two minutes ago", 24 * HOUR, [...Array(156).fill(1), ...Array(24).fill(0)], 0, null],
  ["calls that stopped later", 24 * HOUR, [...Array(157).fill(1), ...Array(23).fill(0)], 0, 13_757_962],
])("the forecast of %s", (_name, windowMs, calls, spent, expected) => {
  const window = { limit: 2_400, windowMs, spent, remaining: 2_400 - spent };
  expect(emptyInMs(window, calls)).toBe(expected);
});

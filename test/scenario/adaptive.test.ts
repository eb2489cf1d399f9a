/**
 * Lifetimes that follow how fast answers change, and answers that come back saying the same.
 */
import { describe, expect, it } from "vitest";

import { startGateway, type TestGateway } from "../support/gateway.ts";
import { cacheStatus } from "../support/reply.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";

/** Fresh for 300 s, as is set. */
const PATH = "/listings?areaId=76&limit=5";

interface Started {
  readonly gateway: TestGateway;
  readonly clock: SteppingClock;
}

/** @param settings further settings of the cache; a request for an expired answer waits for the new one */
async function start(settings: string): Promise<Started> {
  const clock = createSteppingClock();
  const gateway = await startGateway({
    clock,
    sandbox: { now: clock.now },
    settings: `cache: { staleWhileRevalidate: 0s, ${settings} }`,
  });
  return { gateway, clock };
}

/** Asks again and again, each time when the last answer has just expired. @returns its `ttl` each time, in seconds */
async function lifetimes(
  { gateway, clock }: Started,
  times: number,
  beforeEach: (nth: number) => void = () => undefined,
): Promise<number[]> {
  const seconds = [Number(cacheStatus(await gateway.get(PATH))["ttl"])];
  for (let nth = 1; nth <= times; nth++) {
    // A lifetime may be some milliseconds longer than the whole seconds in the header.
    clock.pass(((seconds.at(-1) ?? 0) + (seconds.at(-1) === 300 ? 0 : 1)) * 1_000);
    beforeEach(nth);
    const status = cacheStatus(await gateway.get(PATH));
    expect(status).toMatchObject({ fwd: "stale", stored: true });
    seconds.push(Number(status["ttl"]));
  }
  return seconds;
}

async function effects({ gateway }: Started): Promise<Record<string, number>> {
  const count = (effect: string): Promise<number> =>
    gateway.metric(`gateway_adaptive_ttl_shadow_total{resource="listings",effect="${effect}"}`);
  return { saved: await count("saved"), outdated: await count("outdated"), extra: await count("extra") };
}

const NO_EFFECTS = { saved: 0, outdated: 0, extra: 0 };

const isMonotonous = (values: readonly number[], sign: 1 | -1): boolean =>
  values.every((value, index) => index === 0 || (value - (values[index - 1] ?? 0)) * sign >= 0);

describe("with adaptive lifetimes", () => {
  it("an answer that changes at each refresh gets shorter lifetimes, down to the minimum", async () => {
    const started = await start("adaptiveTtl: on, ttlMin: { listings: 2m }");
    const seconds = await lifetimes(started, 12, () => started.gateway.sandbox.revise());
    expect([seconds[0], seconds.at(-1)]).toEqual([300, 120]);
    expect([seconds, isMonotonous(seconds, -1)]).toEqual([seconds, true]);
    expect(seconds[1]).toBeLessThan(300);
    expect(await effects(started)).toEqual(NO_EFFECTS);
  });

  it("an answer that never changes gets longer lifetimes, up to the maximum", async () => {
    const started = await start("adaptiveTtl: on, ttlMax: { listings: 30m }");
    const seconds = await lifetimes(started, 12);
    expect([seconds[0], seconds.at(-1)]).toEqual([300, 1_800]);
    expect([seconds, isMonotonous(seconds, 1)]).toEqual([seconds, true]);
    expect(seconds[1]).toBeGreaterThan(300);
    expect(await effects(started)).toEqual(NO_EFFECTS);
  });

  it("an answer whose JSON is only formatted differently does not count as changed", async () => {
    const started = await start("adaptiveTtl: on");
    const seconds = await lifetimes(started, 4, (nth) => {
      started.gateway.sandbox.faults.clear();
      if (nth % 2 === 1) started.gateway.sandbox.faults.add({ respell: true });
    });
    expect([seconds, isMonotonous(seconds, 1)]).toEqual([seconds, true]);
    expect(seconds.at(-1)).toBeGreaterThan(300);
  });

  it("an answer that stops changing gets longer lifetimes again", async () => {
    const started = await start("adaptiveTtl: on");
    const seconds = await lifetimes(started, 16, (nth) => {
      if (nth <= 6) started.gateway.sandbox.revise();
    });
    expect(seconds[6]).toBeLessThan(200);
    expect(seconds.at(-1)).toBeGreaterThan(300);
  });
});

describe("with adaptive lifetimes in shadow mode", () => {
  it.each<[string, (nth: number) => boolean, Record<string, number>]>([
    // It would have been fetched 450 s after the first refresh, and 666 s after the third.
    [
      "of one that never changes most refreshes would be saved",
      () => false,
      { saved: 3, outdated: 0, extra: 2 },
    ],
    ["one that always changes would be fetched oftener", () => true, { saved: 0, outdated: 0, extra: 5 }],
    [
      "one that changes late would be out of date once",
      (nth) => nth === 2,
      { saved: 0, outdated: 1, extra: 1 },
    ],
  ])("lifetimes stay as configured, and %s", async (_name, changesAt, expected) => {
    const started = await start("adaptiveTtl: shadow");
    const rounds = expected["outdated"] === 1 ? 3 : 6;
    const seconds = await lifetimes(started, rounds, (nth) => {
      if (changesAt(nth)) started.gateway.sandbox.revise();
    });
    expect(new Set(seconds)).toEqual(new Set([300]));
    expect(await effects(started)).toEqual(expected);
  });
});

it("without adaptive lifetimes, lifetimes stay as configured and nothing is counted", async () => {
  const started = await start("adaptiveTtl: off");
  expect(new Set(await lifetimes(started, 6))).toEqual(new Set([300]));
  expect(await effects(started)).toEqual(NO_EFFECTS);
});

describe("a refreshed answer", () => {
  it("that differs only in its formatting keeps its ETag and its bytes, and callers get 304", async () => {
    const { gateway, clock } = await start("adaptiveTtl: shadow");
    const first = await gateway.get(PATH);
    clock.pass(300_000);
    gateway.sandbox.faults.add({ respell: true });
    const again = await gateway.get(PATH, { headers: { "if-none-match": first.headers.etag } });
    expect([again.status, again.headers.etag]).toEqual([304, first.headers.etag]);
    expect(cacheStatus(again)).toMatchObject({ fwd: "stale", ttl: "300" });
    expect(gateway.sandbox.requests()).toHaveLength(2);
    const whole = await gateway.get(PATH);
    expect([whole.text, whole.headers.etag, whole.headers.age]).toEqual([
      first.text,
      first.headers.etag,
      "0",
    ]);
    expect(await gateway.metric('gateway_refreshes_total{resource="listings",change="unchanged"}')).toBe(1);
  });

  it("with other content has a new ETag, and callers get it", async () => {
    const { gateway, clock } = await start("adaptiveTtl: shadow");
    const first = await gateway.get(PATH);
    clock.pass(300_000);
    gateway.sandbox.revise();
    gateway.sandbox.faults.add({ respell: true });
    const again = await gateway.get(PATH, { headers: { "if-none-match": first.headers.etag } });
    expect([again.status, again.headers.etag === first.headers.etag]).toEqual([200, false]);
    expect(await gateway.metric('gateway_refreshes_total{resource="listings",change="changed"}')).toBe(1);
  });
});

/** Those whose deadline passes while their call is in the queue: flights and the throttle together. */
import { describe, expect, it } from "vitest";

import { createFlights, type Flights } from "../../../src/singleflight/flight.ts";
import type { RefuseLate, Waiter } from "../../../src/types.ts";
import { settled } from "../../support/fake-clock.ts";
import { MINUTE, termsOf } from "./arbiter-support.ts";
import {
  advanceUntil,
  atOnce,
  bringing,
  createSetting,
  errorOf,
  heldJob,
  HOME,
  ONE_A_MINUTE,
  type Setting,
  type SettingOptions,
  waiting,
} from "./throttle-support.ts";

interface Callers extends Setting {
  readonly flights: Flights<string>;
  /** One who asks for `key` and has so long; what it gets, or its error. */
  readonly ask: (key: string, deadlineMs: number, who?: Partial<Waiter>) => Promise<unknown>;
}

function callers(options: SettingOptions): Callers {
  const setting = createSetting(options);
  const { clock, throttled } = setting;
  const flights = createFlights<string>(clock);
  const ask: Callers["ask"] = (key, deadlineMs, changes = {}) => {
    const gone = new AbortController().signal;
    const who: Waiter = { app: "app", priority: "interactive", gone, deadlineAt: 0, ...changes };
    const launch = (waiting: Parameters<typeof throttled>[1]): Promise<string> =>
      throttled(
        bringing(() => key),
        waiting,
        { app: who.app },
      );
    return flights.join(key, { ...who, deadlineAt: clock.now() + deadlineMs }, launch).then(
      ({ value }) => value,
      (error: unknown) => error,
    );
  };
  return { ...setting, flights, ask };
}

const refusal = (code: string, retryAfterSeconds: number): object => ({
  code,
  details: { retryAfterSeconds, refusedHere: true },
});

describe("one whose place somebody more urgent took", () => {
  it("is told when the next one comes, and counts once for each caller; nothing was sent for them", async () => {
    const { ask, throttled, clock, reports, allowance } = callers({ windows: ONE_A_MINUTE });
    await throttled(atOnce);
    const nightly = { app: "nightly", priority: "background" } as const;
    const late = Promise.all([1, 2, 3].map(() => ask("theirs", MINUTE + 5_000, nightly)));
    const urgent = ask("ours", MINUTE + 5_000);
    await clock.armed(MINUTE + 1);
    await clock.advance(MINUTE + 1);
    expect(await urgent).toBe("ours");
    expect(reports.refused).toEqual([]);
    await clock.advance(4_999);
    // The urgent one's place is free again a minute after it went.
    expect(await late).toMatchObject(Array(3).fill(refusal("temporary-reduced-capacity", 56)));
    expect(reports.refused).toEqual(Array(3).fill("nightly: deadline"));
    expect(allowance.overview().windows[0]?.spent).toBe(1);

    // And not a second sooner.
    await clock.advance(55_000);
    expect(await ask("theirs", 1, nightly)).toMatchObject(refusal("temporary-reduced-capacity", 1));
    await clock.advance(1_000);
    expect(await ask("theirs", 1, nightly)).toBe("theirs");
  });
});

describe("a call that was taken out of the queue at its deadline", () => {
  it("was never sent: so are told, too, whose own deadline passes before they hear of it", async () => {
    const { throttled, clock, reports } = createSetting({ concurrency: 1 });
    const held = heldJob();
    const first = throttled(held.job);
    await held.started;
    let refuse: RefuseLate = () => undefined;
    const inQueue = (refuseLate: RefuseLate): void => void (refuse = refuseLate);
    const who = { ...waiting(clock.now() + 1_000), inQueue };
    const late = errorOf(throttled(atOnce, who));
    await advanceUntil(late, clock, 100);
    const refused = { code: "temporary-reduced-capacity" };
    expect([await late, refuse({ app: "app", priority: "interactive" })]).toMatchObject([refused, refused]);
    expect(reports.refused).toEqual(["app: deadline"]);
    held.finish();
    await first;
  });
});

describe("callers of one flight that waits for a place", () => {
  const windows = [{ limit: 4, windowMs: MINUTE }];
  const terms = termsOf({ a: 1, b: 1 });

  async function spentByBoth(): Promise<Callers> {
    const setting = callers({ windows, terms: { apps: terms.apps } });
    for (const app of ["a", "a", "a", "b"]) await setting.throttled(atOnce, undefined, { app });
    return setting;
  }

  it("are each told by their own shares, and the patient one gets the answer", async () => {
    const { ask, clock, reports } = await spentByBoth();
    const patient = ask("key", MINUTE + 1_000, { app: "a" });
    const hasty = [ask("key", 30_000, { app: "a" }), ask("key", 30_000, { app: "b" })];
    const gone = new AbortController();
    const hungUp = ask("key", 30_000, { app: "b", gone: gone.signal });
    await clock.advance(29_999);
    gone.abort();
    expect(await hungUp).toMatchObject({ name: "CallerGone" });
    await clock.advance(1);
    expect(await Promise.all(hasty)).toMatchObject([
      { ...refusal("quota-exceeded", 30), details: { ofApp: "a" } },
      refusal("temporary-reduced-capacity", 30),
    ]);
    expect(reports.refused).toEqual(["a: deadline", "b: deadline"]);
    await advanceUntil(patient, clock, 10_000);
    expect(await patient).toBe("key");
    expect(reports.refused).toHaveLength(2);
  });

  it("are told of the limit for a day, and of the rest the API asked for, where that is what they wait for", async () => {
    const apps = termsOf({ a: { weight: 1, perDay: 1 }, b: 1 }).apps;
    const { ask, throttled, clock } = callers({ windows, terms: { apps } });
    const slowDown = { cause: "too-many-requests", forMs: 20_000 } as const;
    await throttled(async (ended) => ended({ ...HOME, status: 429, slowDown }), undefined, { app: "a" });
    const patient = ask("key", 25_000, { app: "b" });
    const hasty = [ask("key", 10_000, { app: "a" }), ask("key", 10_000, { app: "b" })];
    await clock.advance(10_000);
    expect(await Promise.all(hasty)).toMatchObject([
      {
        code: "quota-exceeded",
        details: { retryAfterSeconds: 86_390, detail: expect.stringContaining("24") },
      },
      refusal("upstream-unavailable", 10),
    ]);
    await advanceUntil(patient, clock, 5_000);
    expect(await patient).toBe("key");
  });

  it("are withdrawn with the last of them, who is told too, and cost nothing", async () => {
    const { ask, clock, allowance, throttle, flights } = await spentByBoth();
    const both = Promise.all([ask("key", MINUTE + 1, { app: "b" }), ask("key", MINUTE, { app: "b" })]);
    await clock.advance(1_000);
    // What is sent at the last moment takes the place that was meant for them.
    for (let sent = 0; sent < 4; sent++) {
      await allowance.takeAnyway({
        app: "a",
        priority: "interactive",
        resource: "listings",
        cause: "miss",
        query: "",
      });
    }
    await clock.advance(MINUTE);
    const codes = (await both).map((error) => Object(error).code);
    expect(codes).toEqual(["temporary-reduced-capacity", "temporary-reduced-capacity"]);
    await settled();
    expect([throttle.queueLength("interactive"), flights.size]).toEqual([0, 0]);
    expect(allowance.overview().windows[0]?.spent).toBe(4);
  });
});

describe("one whose call waits behind as many calls as there may be at once", () => {
  it.each(["enforce", "observe"] as const)(
    "is told that its turn has not come, whatever the budget says or would say: %s",
    async (mode) => {
      const windows = mode === "observe" ? ONE_A_MINUTE : undefined;
      const { ask, throttled, clock, reports } = callers({
        mode,
        concurrency: 1,
        ...(windows && { windows }),
      });
      const stuck = heldJob();
      const held = throttled(stuck.job);
      await stuck.started;
      const late = ask("key", 5_000);
      await clock.advance(5_000);
      expect(await late).toMatchObject({
        ...refusal("temporary-reduced-capacity", 1),
        details: { detail: expect.stringContaining("nothing was sent") },
      });
      expect(reports.refused.filter((report) => report === "app: deadline")).toHaveLength(1);
      stuck.finish();
      await held;
    },
  );

  it("is no caller where it is a refresh: that is refused, and not counted", async () => {
    const { ask, throttled, clock, reports } = callers({ concurrency: 1 });
    const stuck = heldJob();
    const held = throttled(stuck.job);
    await stuck.started;
    const refreshes = [
      ask("one", 2_000, { priority: "refresh" }),
      ask("two", 2_000, { priority: "prefetch" }),
    ];
    await clock.advance(2_000);
    expect(await Promise.all(refreshes)).toMatchObject(
      Array(2).fill(refusal("temporary-reduced-capacity", 1)),
    );
    expect(reports.refused).toEqual([]);
    stuck.finish();
    await held;
  });

  it("is told that it is too late once its call has gone", async () => {
    const { flights, throttled, clock, reports } = callers({ concurrency: 1 });
    const job = heldJob();
    const who = {
      app: "app",
      deadlineAt: clock.now() + 5_000,
      gone: new AbortController().signal,
      priority: "interactive",
    } as const;
    const late = errorOf(
      flights.join("key", who, (waiting) => throttled((ended) => job.job(ended).then(() => "home"), waiting)),
    );
    await job.started;
    await clock.advance(5_000);
    expect(await late).toMatchObject({ code: "deadline-exceeded" });
    expect(reports.refused).toEqual([]);
    job.finish();
    await flights.landed();
  });
});

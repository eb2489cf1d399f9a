import { describe, expect, it } from "vitest";

import type { Allowance, Grant, Taken, Wish } from "../../../src/ratelimit/allowance.ts";
import type { SendEnd } from "../../../src/types.ts";
import { MINUTE, termsOf } from "./arbiter-support.ts";
import {
  advanceUntil,
  atOnce,
  bringing,
  createSetting,
  errorOf,
  heldJob,
  HOME,
  NEVER,
  ONE_A_MINUTE,
  turnsElsewhere,
  waiting,
  waitingAs,
} from "./throttle-support.ts";

describe("a budget that is only watched", () => {
  it("refuses nothing and holds nothing back, and reports what it would have refused", async () => {
    const { throttled, clock, reports, allowance } = createSetting({
      windows: ONE_A_MINUTE,
      mode: "observe",
    });
    const ran: number[] = [];
    for (let index = 0; index < 3; index++) {
      await throttled(
        bringing(() => void ran.push(index)),
        waiting(clock.now() + 1_000),
      );
    }
    expect(ran).toEqual([0, 1, 2]);
    expect(reports.refused).toEqual(["app: budget, not enforced", "app: budget, not enforced"]);
    expect(reports.waited).toEqual([0, 0, 0]);
    expect(allowance.overview().windows[0]?.spent).toBe(3);
  });

  it("reports nothing of one who could have waited", async () => {
    const { throttled, reports } = createSetting({ windows: ONE_A_MINUTE, mode: "observe" });
    await throttled(atOnce);
    await throttled(atOnce);
    expect(reports.refused).toEqual([]);
  });

  it("lets requests go although the upstream asked to be left alone", async () => {
    const { throttled, clock, reports } = createSetting({ mode: "observe" });
    await throttled(async (ended) => ended(TOO_MANY));
    expect(
      await throttled(
        bringing(() => "ran"),
        waiting(clock.now() + 1_000),
      ),
    ).toBe("ran");
    expect(reports.refused).toEqual(["app: cool-off, not enforced"]);
  });
});

const TOO_MANY: SendEnd = {
  ...HOME,
  status: 429,
  slowDown: { cause: "too-many-requests", forMs: 30_000 },
};

describe("when the upstream asks to be left alone", () => {
  it("those who cannot wait for so long are told at once, the others wait", async () => {
    const { throttled, clock, reports } = createSetting({ concurrency: 1 });
    const held = heldJob(TOO_MANY);
    const first = throttled(held.job);
    await held.started;
    const start = clock.now();
    const hopeless = errorOf(throttled(atOnce, waiting(start + 29_999)));
    const patient = throttled(
      bringing(() => clock.now()),
      waiting(start + 30_000),
    );
    held.finish();
    await first;
    expect(await hopeless).toMatchObject({
      code: "upstream-unavailable",
      details: { retryAfterSeconds: 30 },
    });
    expect(clock.now()).toBe(start);
    expect(reports.refused).toEqual(["app: cool-off"]);
    await advanceUntil(patient, clock, 10_000);
    expect((await patient) - start).toBe(30_000);
  });

  it("those who come later are refused where they cannot wait for so long", async () => {
    const { throttled, clock, reports } = createSetting();
    await throttled(async (ended) => ended(TOO_MANY));
    await clock.advance(10_500);
    expect(await errorOf(throttled(atOnce, waiting(clock.now() + 19_000)))).toMatchObject({
      code: "upstream-unavailable",
      details: { retryAfterSeconds: 20 },
    });
    expect(reports.refused).toEqual(["app: cool-off"]);
  });

  it("one tries when the time has passed, and the others follow when it is answered", async () => {
    const { throttled, clock } = createSetting();
    await throttled(async (ended) => ended(TOO_MANY));
    const probe = heldJob();
    const trying = throttled(probe.job);
    const other = heldJob();
    other.finish();
    const following = throttled(other.job);
    await clock.armed(30_000);
    await clock.advance(30_000);
    await probe.started;
    await turnsElsewhere(5);
    expect(other.runs()).toBe(0);
    probe.finish();
    await Promise.all([trying, following]);
    expect(other.runs()).toBe(1);
  });
});

describe("work that nobody waits for", () => {
  it.each(["background", "refresh", "prefetch"] as const)(
    "leaves one of the calls at once to callers (%s)",
    async (priority) => {
      const { throttled } = createSetting({ concurrency: 3 });
      const jobs = Array.from({ length: 4 }, () => heldJob());
      const all = jobs.map(({ job }) => throttled(job, waitingAs(priority)));
      await turnsElsewhere(10);
      expect(jobs.map(({ runs }) => runs())).toEqual([1, 1, 0, 0]);
      expect(await throttled(bringing(() => "ran"))).toBe("ran");
      expect(jobs.map(({ runs }) => runs())).toEqual([1, 1, 0, 0]);
      jobs[0]?.finish();
      await turnsElsewhere(10);
      expect(jobs.map(({ runs }) => runs())).toEqual([1, 1, 1, 0]);
      for (const { finish } of jobs) finish();
      await Promise.all(all);
      expect(jobs.map(({ runs }) => runs())).toEqual([1, 1, 1, 1]);
    },
  );

  it("goes all the same where there is only one call at once", async () => {
    const { throttled } = createSetting({ concurrency: 1 });
    expect(
      await throttled(
        bringing(() => "ran"),
        waitingAs("background"),
      ),
    ).toBe("ran");
  });

  it("comes after callers who came later, whatever was queued first", async () => {
    const { throttled } = createSetting({ concurrency: 1 });
    const stuck = heldJob();
    const held = throttled(stuck.job);
    await stuck.started;
    const order: string[] = [];
    const priorities = ["prefetch", "refresh", "background", "interactive"] as const;
    const all = priorities.map((priority) =>
      throttled(
        bringing(() => void order.push(priority)),
        waitingAs(priority),
      ),
    );
    stuck.finish();
    await Promise.all([held, ...all]);
    expect(order).toEqual(["interactive", "background", "refresh", "prefetch"]);
  });
});

describe("apps that wait", () => {
  it("take turns by weight, however many one of them has queued", async () => {
    const terms = termsOf({ hog: 1, quiet: 1 }, { windows: [{ name: "1m", limit: 100, windowMs: MINUTE }] });
    const { throttled } = createSetting({ concurrency: 1, terms });
    const stuck = heldJob();
    const held = throttled(stuck.job, undefined, { app: "hog" });
    await stuck.started;
    const order: string[] = [];
    const apps = [...Array.from({ length: 10 }, () => "hog"), "quiet", "quiet"];
    const all = apps.map((app) =>
      throttled(
        bringing(() => void order.push(app)),
        undefined,
        { app },
      ),
    );
    stuck.finish();
    await Promise.all([held, ...all]);
    expect(order.slice(0, 5).filter((app) => app === "quiet")).toHaveLength(2);
  });

  it("are refused on account of their own share where that is what they have used up", async () => {
    const windows = [{ name: "1m", limit: 10, windowMs: MINUTE }];
    const terms = termsOf({ app: 1, other: 1 }, { windows });
    const { throttled, clock, reports } = createSetting({ terms });
    await throttled(atOnce, undefined, { app: "other" });
    // Five of its own, and one that it may borrow at once; the next one it may borrow in 12 seconds.
    for (let sent = 0; sent < 6; sent++) await throttled(atOnce);
    expect(await errorOf(throttled(atOnce, waiting(clock.now() + 1_000)))).toMatchObject({
      code: "quota-exceeded",
      details: { retryAfterSeconds: 12 },
    });
    expect(
      await throttled(
        bringing(() => "ran"),
        waiting(clock.now()),
        { app: "other" },
      ),
    ).toBe("ran");
    expect(reports.refused).toEqual(["app: share"]);
  });
});

/** An allowance that answers when it is told to. */
function createSlowAllowance(): {
  readonly allowance: Allowance;
  readonly asked: (times: number) => Promise<void>;
  readonly answer: (reply: (wishes: readonly Wish[]) => Taken) => void;
  readonly givenBack: string[];
  readonly settled: string[];
} {
  const { allowance } = createSetting();
  const pending: { wishes: readonly Wish[]; resolve: (taken: Taken) => void }[] = [];
  const watchers = new Set<() => void>();
  const givenBack: string[] = [];
  const settled: string[] = [];
  let asked = 0;
  return {
    allowance: {
      ...allowance,
      take(wishes) {
        const { promise, resolve } = Promise.withResolvers<Taken>();
        pending.push({ wishes, resolve });
        asked += 1;
        for (const watch of watchers) watch();
        return promise;
      },
      settle: ({ id }) => void settled.push(id),
      giveBack: ({ id }) => void givenBack.push(id),
    },
    asked: (times) =>
      new Promise((resolve) => {
        const watch = (): void => {
          if (asked >= times) resolve();
        };
        watchers.add(watch);
        watch();
      }),
    answer(reply) {
      const question = pending.shift();
      question?.resolve(reply(question.wishes));
    },
    givenBack,
    settled,
  };
}

/** A place for the first who asked. */
const placeFor =
  (id: string) =>
  ([wish]: readonly Wish[]): Taken => {
    if (wish === undefined) throw new Error("nobody asked");
    const grant: Grant = { id, wish };
    return { kind: "granted", grant };
  };

describe("a place that comes too late", () => {
  it("is given back where the one who asked for it has gone", async () => {
    const slow = createSlowAllowance();
    const { throttled } = createSetting({ allowance: slow.allowance });
    const controller = new AbortController();
    const left = heldJob();
    const gone = errorOf(throttled(left.job, waiting(NEVER, controller.signal)));
    await slow.asked(1);
    controller.abort();
    await gone;
    slow.answer(placeFor("a"));
    await turnsElsewhere(5);
    expect(slow.givenBack).toEqual(["a"]);
    expect(left.runs()).toBe(0);
    expect(slow.settled).toEqual([]);
  });

  it("is given back where this process was stopped meanwhile, and another one is asked for", async () => {
    const slow = createSlowAllowance();
    const { throttled, clock } = createSetting({ allowance: slow.allowance });
    const job = heldJob();
    job.finish();
    const result = throttled(job.job);
    await slow.asked(1);
    await clock.advance(1_001);
    slow.answer(placeFor("stale"));
    await slow.asked(2);
    expect(slow.givenBack).toEqual(["stale"]);
    expect(job.runs()).toBe(0);
    slow.answer(placeFor("fresh"));
    await result;
    expect(job.runs()).toBe(1);
    expect(slow.settled).toEqual(["fresh"]);
    expect(slow.givenBack).toEqual(["stale"]);
  });

  it("is used where it came within a second", async () => {
    const slow = createSlowAllowance();
    const { throttled, clock } = createSetting({ allowance: slow.allowance });
    const result = throttled(bringing(() => "ran"));
    await slow.asked(1);
    await clock.advance(1_000);
    slow.answer(placeFor("a"));
    expect(await result).toBe("ran");
    expect(slow.givenBack).toEqual([]);
  });

  it("is asked for by one at a time, so that nobody is overtaken", async () => {
    const slow = createSlowAllowance();
    const { throttled } = createSetting({ allowance: slow.allowance });
    const order: number[] = [];
    const all = [0, 1].map((index) => throttled(bringing(() => void order.push(index))));
    await slow.asked(1);
    await turnsElsewhere(5);
    slow.answer(placeFor("a"));
    await slow.asked(2);
    expect(order).toEqual([0]);
    slow.answer(placeFor("b"));
    await Promise.all(all);
    expect(order).toEqual([0, 1]);
    // Nothing was asked for the first one twice.
    expect(slow.givenBack).toEqual([]);
  });
});

describe("an allowance that fails", () => {
  it("is told to all who wait: nobody else would tell them", async () => {
    const { allowance } = createSetting();
    const broken: Allowance = { ...allowance, take: () => Promise.reject(new Error("broken")) };
    const { throttled } = createSetting({ allowance: broken });
    const all = [0, 1, 2].map(() => errorOf(throttled(atOnce)));
    for (const error of await Promise.all(all)) expect(error).toMatchObject({ message: "broken" });
  });
});

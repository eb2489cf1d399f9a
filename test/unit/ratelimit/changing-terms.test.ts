/** Settings that change under a budget that is in use: what was sent stays counted, who waits goes on. */
import { describe, expect, it } from "vitest";

import { createCutOff } from "../../../src/ratelimit/cut-off.ts";
import { arrive, enter, newStanding, type Terms } from "../../../src/ratelimit/arbiter.ts";
import { createLocalAllowance } from "../../../src/ratelimit/local-allowance.ts";
import { createMemoryLedger } from "../../../src/usage/memory-ledger.ts";
import { createOthers } from "../../../src/ratelimit/others.ts";
import { followingTerms } from "../../../src/ratelimit/terms.ts";
import { createThrottle } from "../../../src/ratelimit/throttle.ts";
import { DAY_MS } from "../../../src/ratelimit/windows.ts";
import { Problem } from "../../../src/errors.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { MINUTE, termsOf } from "./arbiter-support.ts";
import {
  createSetting,
  errorOf,
  heldJob,
  ONE_A_MINUTE,
  waiting,
  advanceUntil,
  atOnce,
} from "./throttle-support.ts";

const WISH = { app: "a", priority: "interactive", resource: "areas", cause: "miss", query: "" } as const;
const HOUR = 60 * MINUTE;
const windowOf = (limit: number, windowMs: number) => ({ name: `${windowMs}ms`, limit, windowMs });

function changing(...windows: Terms["windows"]) {
  let current = termsOf({ a: 1 }, { windows });
  const terms = followingTerms(() => current);
  return { terms, change: (...next: Terms["windows"]) => void (current = { ...current, windows: next }) };
}

describe("the budget of one process", () => {
  it("counts in a window that is set later what was sent before, for up to a day", async () => {
    const clock = createFakeClock();
    const { terms, change } = changing(windowOf(3, MINUTE));
    const ledger = createMemoryLedger({ retentionMs: 7 * DAY_MS, maxRecords: 1_000, now: clock.now });
    const allowance = createLocalAllowance({ origin: "api", terms, ledger, clock, replica: "here" });
    async function places(): Promise<number> {
      for (let sent = 0; ; sent++) {
        const taken = await allowance.take([WISH]);
        if (taken.kind === "wait") return sent;
        allowance.settle(taken.grant, { status: 200, arrivedAfterMs: 0, durationMs: 0 });
      }
    }
    for (const expected of [3, 3]) {
      expect(await places()).toBe(expected);
      await clock.advance(12 * HOUR - 1);
    }
    change(windowOf(10, DAY_MS));
    expect(allowance.overview().windows).toMatchObject([{ spent: 6, remaining: 4 }]);
    expect(await places()).toBe(4);
    change(windowOf(5, MINUTE));
    expect(await places()).toBe(1);
  });
});

describe("a replica's view of the others", () => {
  it("takes the most that is held back in any window for what is held back in one that is new", () => {
    const { terms, change } = changing(windowOf(100, MINUTE), windowOf(1_000, HOUR));
    const others = createOthers({
      terms,
      replicas: 4,
      degradedShare: 0.25,
      onTooMany: () => undefined,
      onRelief: () => undefined,
    });
    others.learn({ live: 2, held: [1, 2], queued: [] }, terms.windows);
    expect(others.held()).toEqual([1, 2]);
    const asked = terms.windows;
    change(windowOf(40, 2 * MINUTE));
    expect(others.held()).toEqual([2]);
    const [window = windowOf(0, 0)] = terms.windows;
    expect(others.limitOf(window)).toBe(40 - 2 * 10 - others.slack());
    // An answer to a question about the earlier windows.
    others.learn({ live: 2, held: [0, 1], queued: [] }, asked);
    expect(others.held()).toEqual([1]);
    others.learn({ live: 4, held: [0], queued: [] }, terms.windows);
    expect(others.held()).toEqual([0]);
  });

  it("goes by the new limits while it is cut off", () => {
    const { terms, change } = changing(windowOf(60, MINUTE));
    const before = newStanding();
    const now = 10 * MINUTE;
    for (let sent = 0; sent < 10; sent++) {
      enter(before, terms, { id: `${sent}`, app: "a", until: now }, now);
      arrive(before, { id: `${sent}`, app: "a" }, now);
    }
    const last = { at: now, held: [1], share: 0.25, heldShare: 0.25, slack: 0 };
    const cutOff = createCutOff(before, terms, last, () => now);
    const limit = (): number[] => terms.windows.map(cutOff.limitOf);
    expect(limit()).toEqual([Math.floor((60 - 10 - 15) * 0.25)]);
    change(windowOf(20, MINUTE), windowOf(100, HOUR));
    expect(limit()).toEqual([Math.floor((20 - 10 - 5) * 0.25), Math.floor((100 - 10 - 25) * 0.25)]);
  });
});

describe("a throttle", () => {
  it("lets more go at once, or fewer, from when it is told", async () => {
    const clock = createFakeClock();
    const { terms } = changing(windowOf(1_000, MINUTE));
    const ledger = createMemoryLedger({ retentionMs: 7 * DAY_MS, maxRecords: 1_000, now: clock.now });
    const options = {
      allowance: createLocalAllowance({ origin: "api", terms, ledger, clock, replica: "here" }),
      concurrency: 1,
      mode: "enforce" as const,
      weightOf: () => 1,
      clock,
      observer: { refused: () => undefined, departed: () => undefined },
    };
    const throttle = createThrottle(options);
    const jobs = Array.from({ length: 4 }, () => heldJob());
    const order = { ...WISH, query: "areas", waiting: waiting(clock.now() + HOUR) };
    const all = Promise.all(jobs.map(({ job }) => throttle.throttled(order, job)));
    const begun = (): number => jobs.filter(({ runs }) => runs() > 0).length;
    await jobs[0]?.started;
    expect(begun()).toBe(1);
    options.concurrency = 3;
    throttle.retune();
    await jobs[2]?.started;
    expect(begun()).toBe(3);
    options.concurrency = 1;
    throttle.retune();
    for (const { finish } of jobs.slice(0, 2)) finish();
    jobs[2]?.finish();
    await jobs[3]?.started;
    jobs[3]?.finish();
    await all;
  });

  it("that is closed tells those who wait, and those who come, why, and lets those on their way end", async () => {
    const { throttle, throttled, clock, reports } = createSetting({ windows: ONE_A_MINUTE });
    const onItsWay = heldJob();
    const first = throttled(onItsWay.job);
    await onItsWay.started;
    const second = errorOf(throttled(atOnce, waiting(clock.now() + HOUR)));
    await clock.armed(HOUR + 1);
    const why = new Problem("shutting-down");
    throttle.close(why);
    expect(await second).toBe(why);
    expect(await errorOf(throttled(atOnce, waiting(clock.now() + HOUR)))).toBe(why);
    onItsWay.finish();
    await advanceUntil(first, clock, MINUTE);
    expect(reports.waited).toHaveLength(1);
  });
});

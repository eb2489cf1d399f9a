import { describe, expect, it } from "vitest";

import { createFlights } from "../../../src/singleflight/flight.ts";
import type { Priority, Waiting } from "../../../src/types.ts";
import { MINUTE } from "./arbiter-support.ts";
import {
  atOnce,
  bringing,
  createSetting,
  errorOf,
  heldJob,
  turnsElsewhere,
  waitingAs,
  waitingUntilJoined,
} from "./throttle-support.ts";

describe("work that nobody waited for, and somebody does now", () => {
  it("goes ahead of what nobody waits for, and behind callers who came before", async () => {
    const { throttled, throttle } = createSetting({ concurrency: 1 });
    const stuck = heldJob();
    const held = throttled(stuck.job);
    await stuck.started;
    const order: string[] = [];
    const sends = (name: string, who: Waiting): Promise<void> =>
      throttled(
        bringing(() => void order.push(name)),
        who,
      );
    const joined = waitingUntilJoined();
    const all = [
      sends("another refresh", waitingAs("refresh")),
      sends("the joined refresh", joined.who),
      sends("a background app's", waitingAs("background")),
      sends("a caller's", waitingAs("interactive")),
    ];
    expect([throttle.queueLength("interactive"), throttle.queueLength("refresh")]).toEqual([1, 2]);
    joined.joinedBy("interactive");
    expect([throttle.queueLength("interactive"), throttle.queueLength("refresh")]).toEqual([2, 1]);
    stuck.finish();
    await Promise.all([held, ...all]);
    expect(order).toEqual(["a caller's", "the joined refresh", "a background app's", "another refresh"]);
  });

  it("takes the call at once that is left to callers", async () => {
    const { throttled } = createSetting({ concurrency: 2 });
    const joined = waitingUntilJoined();
    const [first, second] = [heldJob(), heldJob()];
    const both = [throttled(first.job, waitingAs("refresh")), throttled(second.job, joined.who)];
    await turnsElsewhere(10);
    expect([first.runs(), second.runs()]).toEqual([1, 0]);
    joined.joinedBy("interactive");
    await second.started;
    first.finish();
    second.finish();
    await Promise.all(both);
  });

  it("takes a place in the part of the budget that is kept for callers", async () => {
    const windows = [{ name: "1m", limit: 2, windowMs: MINUTE }];
    const { throttled, clock } = createSetting({ terms: { windows, reserve: 0.5 } });
    await throttled(atOnce, waitingAs("refresh"));
    const joined = waitingUntilJoined();
    const second = heldJob();
    const sent = throttled(second.job, joined.who);
    await turnsElsewhere(10);
    await clock.advance(MINUTE / 2);
    expect(second.runs()).toBe(0);
    joined.joinedBy("interactive");
    await second.started;
    second.finish();
    await sent;
  });

  it("is not sent twice, nor at all once all have left, where it was joined late", async () => {
    const { throttled, throttle } = createSetting({ concurrency: 1 });
    const done = waitingUntilJoined();
    const sent = heldJob();
    const sending = throttled(sent.job, done.who);
    await sent.started;
    const left = new AbortController();
    const joined = waitingUntilJoined();
    const withdrawn = heldJob();
    const leaving = errorOf(throttled(withdrawn.job, { ...joined.who, abandoned: left.signal }));
    left.abort();
    await leaving;
    done.joinedBy("interactive");
    joined.joinedBy("interactive");
    expect(throttle.queueLength("interactive")).toBe(0);
    sent.finish();
    await sending;
    await turnsElsewhere(5);
    expect([sent.runs(), withdrawn.runs()]).toEqual([1, 0]);
  });

  it("is a flight that was launched as a refresh, and that a caller has joined", async () => {
    const { throttled, clock } = createSetting({ concurrency: 1 });
    const flights = createFlights<string>(clock);
    const stuck = heldJob();
    const held = throttled(stuck.job);
    await stuck.started;
    const order: string[] = [];
    const flown = (key: string, priority: Priority): Promise<unknown> =>
      flights.join(
        key,
        { app: "app", deadlineAt: clock.now() + MINUTE, gone: new AbortController().signal, priority },
        (waiting) =>
          throttled(
            bringing(() => (order.push(key), key)),
            waiting,
          ),
      );
    const all = [flown("first", "refresh"), flown("second", "refresh")];
    await turnsElsewhere(2);
    all.push(flown("second", "interactive"));
    stuck.finish();
    await Promise.all([held, ...all]);
    expect(order).toEqual(["second", "first"]);
  });
});

import { describe, expect, it } from "vitest";

import { Failures } from "../../../src/cache/recent-failures.ts";
import { Problem } from "../../../src/errors.ts";

const FAILED = new Problem("upstream-error");
const TOO_SLOW = new Problem("deadline-exceeded");

/** For how long after an instant a key is not tried again. */
function pauseMs(failures: Failures, now: number, key = "key"): number {
  let ms = 0;
  while (failures.recent(key, now + ms) !== undefined) ms += 1_000;
  // To the millisecond.
  while (ms > 0 && failures.recent(key, now + ms - 1) === undefined) ms -= 1;
  return ms;
}

describe("a key whose fetch failed", () => {
  it("begins with the shortest pause again after a success", () => {
    const failures = new Failures();
    for (const now of [0, 5_000]) failures.failed("key", FAILED, now);
    failures.succeeded("key");
    failures.failed("key", FAILED, 6_000);
    expect(pauseMs(failures, 6_000)).toBe(5_000);
  });

  it("is tried again after pauses that grow to a minute", () => {
    const failures = new Failures();
    let now = 0;
    for (const pause of [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]) {
      failures.failed("key", FAILED, now);
      expect(pauseMs(failures, now)).toBe(pause);
      now += pause;
    }
  });
});

it("a key that took too long is not fetched again for a fixed time", () => {
  const failures = new Failures();
  for (const now of [0, 100, 5_000, 10_000]) {
    failures.tooSlow("key", TOO_SLOW, now);
    expect([failures.recent("key", now), pauseMs(failures, now)]).toEqual([TOO_SLOW, 5_000]);
  }
});

it("beyond ten thousand keys, those whose failure is the oldest are forgotten", () => {
  const failures = new Failures();
  for (let at = 0; at < 10_000; at++) failures.failed(`key ${at}`, FAILED, at);
  failures.failed("key 0", FAILED, 10_000);
  failures.failed("another key", FAILED, 10_000);
  const known = ["key 0", "key 1", "key 2", "another key"].map((key) => failures.latest(key) === FAILED);
  expect(known).toEqual([true, false, true, true]);
});

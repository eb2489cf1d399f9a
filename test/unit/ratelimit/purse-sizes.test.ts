import { expect, it } from "vitest";

import { CONSTANTS } from "../../../src/config/timeouts-and-limits.ts";
import { atLeast, atMost, sendByOf } from "../../../src/ratelimit/limits/purse-sizes.ts";

it.each([1, 999, 60_000, 86_400_000])("%d ms are safe if another clock is 0.1 %% faster or slower", (ms) => {
  expect(atMost(ms) * 1.001).toBeLessThanOrEqual(ms);
  expect(atLeast(ms) / 1.001).toBeGreaterThanOrEqual(ms);
});

it("a call that is written at the last instant, and gets no answer, is reset while it still counts", () => {
  const { connectTimeoutMs, headerTimeoutMs } = CONSTANTS.upstream;
  const arrivalMs = 2_000 + connectTimeoutMs + headerTimeoutMs;
  expect(sendByOf(0, arrivalMs) + headerTimeoutMs).toBeLessThanOrEqual(arrivalMs);
});

import { expect, it } from "vitest";

import { atLeast, atMost } from "../../../src/ratelimit/limits/purse-sizes.ts";

it.each([1, 999, 60_000, 86_400_000])("%d ms are safe if another clock is 0.1 %% faster or slower", (ms) => {
  expect(atMost(ms) * 1.001).toBeLessThanOrEqual(ms);
  expect(atLeast(ms) / 1.001).toBeGreaterThanOrEqual(ms);
});

/** A mixed workload: what it costs when pages are cut from blocks, and that every answer is right. */
import { expect, it } from "vitest";

import { playWorkload } from "../support/pages-workload.ts";

it("a workload needs only unavoidable calls, and every answer is the upstream's, byte for byte", async () => {
  const sizes = { listings: 4_000, sold: 6_000 };
  const plan = { requests: 3_000, searches: 40, sizes, seed: 1 };
  const { calls, checks, unavoidable, pages } = await playWorkload(plan);
  expect(calls - checks).toBe(unavoidable);
  expect(checks).toBeLessThanOrEqual(calls / 100);
  expect(calls).toBeLessThan(pages / 10);
});

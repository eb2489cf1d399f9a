/** A mixed workload: what it costs when pages are cut from blocks, and that every answer is right. */
import { expect, it } from "vitest";

import { playWorkload } from "../support/pages-workload.ts";

it("with derived answers, a workload needs fewer calls than there are blocks, and every answer is correct", async () => {
  const result = await playWorkload({
    learning: { requests: 500, searches: 1_000, seed: 2, minSamples: 2 },
    requests: 500,
    searches: 150,
    areas: 8,
    sizes: { listings: 3_000, sold: 4_000 },
    seed: 1,
  });
  expect(result.derived).toBeGreaterThan(0);
  expect(result.calls).toBeLessThan(result.unavoidable);
  expect(result.differed).toBe(0);
});

it("a workload needs only unavoidable calls, and every answer is the upstream's, byte for byte", async () => {
  const sizes = { listings: 4_000, sold: 6_000 };
  const { calls, unavoidable, pages } = await playWorkload({ requests: 2_000, searches: 40, sizes, seed: 1 });
  expect(calls).toBe(unavoidable);
  expect(calls).toBeLessThan(pages / 10);
});

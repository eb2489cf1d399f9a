/** A mixed workload: what it costs when pages are cut from blocks, and that every answer is right. */
import { expect, it } from "vitest";

import { playWorkload } from "../support/pages-workload.ts";

it("a workload costs no call that could be saved, and every answer is the upstream's, byte for byte", async () => {
  const sizes = { listings: 4_000, sold: 6_000 };
  const { calls, unavoidable, pages } = await playWorkload({ requests: 2_000, searches: 40, sizes, seed: 1 });
  expect(calls).toBe(unavoidable);
  expect(calls).toBeLessThan(pages / 10);
});

/** The mixed workload at full length. */
import { expect, it } from "vitest";

import { playWorkload } from "../support/pages-workload.ts";

it.each([1, 2, 3])(
  "20,000 requests (seed %i) need at most 21 calls per 1,000, and no answer is wrong",
  { timeout: 1_800_000 },
  async (seed) => {
    const sizes = { listings: 12_000, sold: 24_000 };
    const requests = 20_000;
    const { calls, checks, unavoidable } = await playWorkload({ requests, searches: 250, sizes, seed });
    expect(calls - checks).toBe(unavoidable);
    expect((calls / requests) * 1_000).toBeLessThanOrEqual(21);
  },
);

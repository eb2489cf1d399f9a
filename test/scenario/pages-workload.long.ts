/** The mixed workload at full length. */
import { expect, it } from "vitest";

import { playWorkload } from "../support/pages-workload.ts";

it.each([1, 2])(
  "with derived answers, 20,000 requests (seed %i) need fewer calls than there are blocks, and no answer is wrong",
  { timeout: 1_800_000 },
  async (seed) => {
    const requests = 20_000;
    const { calls, unavoidable, derived, differed } = await playWorkload({
      learning: { requests, searches: 3_000, seed: seed + 100, minSamples: 20 },
      requests,
      searches: 250,
      sizes: { listings: 12_000, sold: 24_000 },
      seed,
    });
    const perThousand = (count: number): string => ((count / requests) * 1_000).toFixed(1);
    console.log(
      `derived answers: ${perThousand(calls)} calls per 1,000, ${perThousand(unavoidable)} without`,
    );
    expect(derived).toBeGreaterThan(0);
    expect(calls).toBeLessThan(unavoidable);
    expect(differed).toBe(0);
  },
);

it.each([1, 2, 3])(
  "20,000 requests (seed %i) need at most 21 calls per 1,000, and no answer is wrong",
  { timeout: 1_800_000 },
  async (seed) => {
    const sizes = { listings: 12_000, sold: 24_000 };
    const requests = 20_000;
    const { calls, unavoidable } = await playWorkload({ requests, searches: 250, sizes, seed });
    expect(calls).toBe(unavoidable);
    expect((calls / requests) * 1_000).toBeLessThanOrEqual(21);
  },
);

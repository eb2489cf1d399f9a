import { expect, it } from "vitest";

import { soak } from "./soak.ts";

it(
  "two minutes of faults: no answer is wrong, no window is exceeded, nobody hangs",
  { timeout: 300_000 },
  async () => {
    const { wrong, hung, windows, compared, examples, faultFailures } = await soak(2, 17);
    const seen = { wrong, hung, examples, faultFailures };
    expect(seen).toEqual({ wrong: 0, hung: 0, examples: [], faultFailures: [] });
    expect(windows.filter(({ most, limit }) => most > limit)).toEqual([]);
    expect(compared).toBeGreaterThan(1_000);
  },
);

import { expect, it } from "vitest";

import { soak } from "./soak.ts";

const MOST_MS = 300_000;

it(
  "two minutes of faults: no answer is wrong, no window is exceeded, nobody hangs",
  { timeout: MOST_MS },
  async () => {
    const { wrong, hung, windows, compared, examples, faultFailures } = await soak({ minutes: 2, seed: 17 });
    expect({ wrong, hung, examples, faultFailures }).toEqual({
      wrong: 0,
      hung: 0,
      examples: [],
      faultFailures: [],
    });
    expect(windows.filter(({ most, limit }) => most > limit)).toEqual([]);
    expect(compared).toBeGreaterThan(1_000);
  },
);

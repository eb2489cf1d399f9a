import { expect, it } from "vitest";

import { Warm } from "../../../src/cache/warm.ts";
import { pause } from "../../../src/process/clock.ts";
import { systemRandom } from "../../../src/process/random.ts";
import { SILENT } from "../../support/silent-observer.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { questionWith, requestWith } from "../../support/question.ts";
import { rulesWith } from "../../support/rules.ts";

it("if a warm list is too long to be fetched in time, each of its answers is fetched equally often", async () => {
  const clock = createFakeClock();
  const fetched: string[] = [];
  const warm = new Warm({
    items: Array.from({ length: 20 }, (_, id) => ({
      question: questionWith(requestWith(clock.now()), `listings?areaId=${id}&offset=0`),
      everyMs: null,
    })),
    tiers: { lookup: async () => undefined },
    sourceOf: async (question) => question,
    async refresh({ canonicalQuery }) {
      fetched.push(canonicalQuery);
      await pause(clock, 8_000);
      return "failed";
    },
    rules: () => rulesWith({}),
    clock,
    random: { ...systemRandom, fraction: () => 0.5 },
    observer: SILENT,
  });
  warm.start();
  await clock.advance(3_600_000);
  warm.stop();
  const times = [...Map.groupBy(fetched, (query) => query).values()].map(({ length }) => length);
  expect(times).toHaveLength(20);
  expect(Math.max(...times) - Math.min(...times)).toBeLessThanOrEqual(1);
});

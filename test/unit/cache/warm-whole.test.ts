/** Keeping answers warm, over the cache with all that is behind it. */
import { expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import { createWarm } from "../../../src/cache/warm.ts";
import { entryWith, fetchedWith, NO_CACHING_HEADERS } from "../../support/entries.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { questionWith, requestWith } from "../../support/question.ts";
import { each, rulesWith } from "../../support/rules.ts";
import { FOUND, LIFETIME_MS, NOT_FOUND, setup, type SetupOptions } from "./cache-support.ts";
import type { Fetched } from "../../../src/types.ts";

const HOUR_MS = 3_600_000;
const STALE_AT_ONCE = fetchedWith({ caching: { ...NO_CACHING_HEADERS, freshForMs: 0 } });

it.each<[string, () => Promise<Fetched>, SetupOptions["rules"], number]>([
  ["good, and fresh for five minutes", async () => FOUND, {}, 14],
  ["stale at once, by the upstream's word", async () => STALE_AT_ONCE, {}, 121],
  ["that there is nothing, which is not remembered", async () => NOT_FOUND, { negativeTtlMs: each(0) }, 121],
  [
    "too old for anybody",
    async () => fetchedWith({ caching: { ...NO_CACHING_HEADERS, ageMs: 10 * HOUR_MS } }),
    {},
    121,
  ],
  [
    "not to be kept",
    async () => fetchedWith({ caching: { ...NO_CACHING_HEADERS, mayStore: false } }),
    {},
    121,
  ],
  ["a failure", () => Promise.reject(new Problem("upstream-error")), {}, 121],
])(
  "an answer that is %s is fetched by two replicas that keep it warm only as often as needed",
  async (_what, upstream, rules, most) => {
    const { clock, warm, fetches } = setup(upstream, { rules: rules ?? {} });
    warm().start();
    warm().start();
    await clock.advance(HOUR_MS);
    expect(fetches()).toBeGreaterThan(HOUR_MS / LIFETIME_MS);
    expect(fetches()).toBeLessThanOrEqual(most);
  },
);

it("no replica fetches a listed answer right after it failed", async () => {
  const { clock, warm, fetches } = setup(() => Promise.reject(new Problem("upstream-error")));
  warm().start();
  await clock.advance(30_000);
  warm().start();
  await clock.advance(HOUR_MS);
  // In the first minute more: it is tried again after five seconds, ten, and so on.
  expect(fetches()).toBeLessThanOrEqual(62);
});

it("an answer is kept warm after the clock was set back", async () => {
  const fake = createFakeClock();
  let setBackMs = 0;
  const clock = { ...fake, now: () => fake.now() - setBackMs };
  const refreshedAt: number[] = [];
  const warm = createWarm({
    items: [{ question: questionWith(requestWith(clock.now())), everyMs: 60_000 }],
    tiers: {
      // As where entries from before the time of day was set back are not found.
      lookup: async () =>
        setBackMs === 0 ? { entry: entryWith("{}", fake.now()), tier: "memory", isPurged: false } : undefined,
    },
    sourceOf: async (question) => question,
    refresh: async () => {
      refreshedAt.push(clock.monotonic());
      return "refreshed";
    },
    rules: rulesWith,
    clock,
    random: { fraction: () => 0 },
    observer: { warmed: () => undefined },
  });
  warm.start();
  await fake.advance(1_000);
  setBackMs = 86_400_000;
  await fake.advance(60_000);
  expect(refreshedAt.length).toBeGreaterThan(0);
});

import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Fetched } from "../../../src/upstream/verdict.ts";
import { fetchedWith, NO_CACHING_HEADERS } from "../../support/entries.ts";
import { settled } from "../../support/fake-clock.ts";
import { each } from "../../support/rules.ts";
import { FOUND, LIFETIME_MS, RULES, type Setup, setup } from "./cache-support.ts";

describe("a question whose answer has just expired", () => {
  const rules = { staleWhileRevalidateMs: each(60_000) };

  it.each(["upstream-error", "temporary-reduced-capacity"] as const)(
    "is tried again in time after %s, although the time of day was set back meanwhile",
    async (code) => {
      const { clock, ask, fetches } = setup(
        async (nth) => {
          if (nth === 2) throw new Problem(code);
          return FOUND;
        },
        { rules },
      );
      await ask();
      await clock.advance(LIFETIME_MS + 50_000);
      await ask();
      await settled();
      clock.set(clock.now() - 40_000);
      await clock.advance(5_000);
      await ask();
      await settled();
      expect(fetches()).toBe(3);
    },
  );
});

describe("a question whose new answer takes long", () => {
  it("is refreshed once: a refresh that joins an abandoned one which then fails does not retry at once", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { clock, ask, fetches } = setup((nth) => (nth === 1 ? Promise.resolve(FOUND) : door.promise), {
      rules: { staleWhileRevalidateMs: each(60_000) },
    });
    await ask();
    await clock.advance(LIFETIME_MS);
    expect(await ask()).toMatchObject({ outcome: "updating" });
    await clock.advance(3_000);
    expect(await ask()).toMatchObject({ outcome: "updating" });
    await settled();
    door.reject(new Problem("upstream-timeout"));
    await settled();
    expect(await ask()).toMatchObject({ outcome: "stale", note: "upstream-timeout" });
    expect(fetches()).toBe(2);
  });

  it("whose call is queued because of its app's share does not stop other apps from asking", async () => {
    const refusal = new Problem("quota-exceeded", { ...LATE, ofApp: "web" });
    const { clock, ask, fetches } = await expiredInQueue(refusal);
    const first = ask(undefined, { app: "web" });
    await clock.advance(1_000);
    expect(await first).toMatchObject({ outcome: "stale", note: "quota-exceeded" });
    // One that came, and had to go to the queue.
    const other = ask();
    await clock.advance(1_000);
    await other;
    expect(fetches()).toBe(3);
  });

  it("of a caller with an earlier deadline gets the stale one by then, which does not affect other callers", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { clock, ask, fetches } = setup((nth) => (nth === 1 ? Promise.resolve(FOUND) : door.promise));
    await ask();
    await clock.advance(LIFETIME_MS);
    const hasty = ask(undefined, { deadlineAt: clock.now() + 100 });
    await clock.advance(100);
    expect(await hasty).toMatchObject({ outcome: "stale", note: "deadline-exceeded" });
    const patient = ask();
    await settled();
    door.resolve(FOUND);
    expect(await patient).toMatchObject({ outcome: "collapsed", forwarded: "stale" });
    expect(fetches()).toBe(2);
  });
});

it("an answer that arrives nearly too old is not refreshed at every request", async () => {
  const old = fetchedWith({ caching: { ...NO_CACHING_HEADERS, ageMs: RULES.maxAgeEverMs - 50_000 } });
  const { clock, ask, fetches } = setup(async () => old);
  for (let second = 0; second < 100; second++) {
    await ask();
    await settled();
    await clock.advance(1_000);
  }
  expect(fetches()).toBeLessThanOrEqual(3);
});

const LATE = { refusedHere: true, late: true, retryAfterSeconds: 5 };

/** An expired answer; its fetch stays in a queue with this refusal until it is withdrawn. */
async function expiredInQueue(refusal: Problem): Promise<Setup> {
  const started = setup(async (nth, { waiting }) => {
    if (nth === 1) return FOUND;
    waiting.inQueue(() => refusal);
    await new Promise((resolve) => waiting.abandoned.addEventListener("abort", resolve));
    throw refusal;
  });
  await started.ask();
  await started.clock.advance(LIFETIME_MS);
  return started;
}

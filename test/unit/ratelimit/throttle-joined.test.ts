/** Callers of several apps who wait for one call: flights and the throttle together. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { Allowance, Taken, Wish } from "../../../src/ratelimit/allowance.ts";
import { createFlights } from "../../../src/singleflight/flight.ts";
import type { Waiter } from "../../../src/types.ts";
import { createFakeClock, settled } from "../../support/fake-clock.ts";
import { MINUTE, termsOf } from "./arbiter-support.ts";
import {
  advanceUntil,
  atOnce,
  bringing,
  createSetting,
  heldJob,
  HOME,
  type Setting,
  type SettingOptions,
  turnsElsewhere,
} from "./throttle-support.ts";

interface Callers extends Setting {
  /** One of an app who asks for `key`, and waits for a minute; what it gets, or its error. */
  readonly ask: (
    app: string,
    key: string,
    who?: Partial<Waiter> & { readonly forMs?: number },
  ) => Promise<unknown>;
  /** For how many each app has paid. */
  readonly paid: () => Record<string, number>;
}

/** @param launched what there is to do before a call comes to the queue */
function callers(options: SettingOptions, launched: () => Promise<void> = async () => undefined): Callers {
  const setting = createSetting(options);
  const { clock, throttled, reports } = setting;
  const flights = createFlights<string>(clock);
  const ask: Callers["ask"] = (app, key, { forMs = MINUTE, ...changes } = {}) => {
    const gone = new AbortController().signal;
    const deadlineAt = clock.now() + forMs;
    const who: Waiter = { app, priority: "interactive", gone, deadlineAt, ...changes };
    const flight = flights.join(key, who, async (waiting) => {
      await launched();
      return await throttled(
        bringing(() => key),
        waiting,
        { app, query: key },
      );
    });
    return flight.then(
      ({ value }) => value,
      (error: unknown) => error,
    );
  };
  const paid: Callers["paid"] = () => {
    const counts: Record<string, number> = {};
    for (const app of reports.paid) counts[app] = (counts[app] ?? 0) + 1;
    return counts;
  };
  return { ...setting, ask, paid };
}

const EVENLY = termsOf({ hog: 1, quiet: 1 }).apps;

/** A hog that has had its five of ten places, and one that it may borrow; the next one it may in 12 seconds. */
async function hogOverItsShare(launched?: () => Promise<void>): Promise<Callers> {
  const windows = [{ limit: 10, windowMs: MINUTE }];
  const setting = callers({ windows, terms: { apps: EVENLY } }, launched);
  await setting.throttled(atOnce, undefined, { app: "quiet" });
  for (let sent = 0; sent < 6; sent++) await setting.throttled(atOnce, undefined, { app: "hog" });
  return setting;
}

describe("a call of an app that has used up its share", () => {
  it("goes at once as that of another one whose caller joins it, which pays; both get the answer", async () => {
    const { ask, paid, throttle, clock, reports } = await hogOverItsShare();
    const hogs = ["a", "b", "c"].map((key) => ask("hog", key, { forMs: 2 * MINUTE }));
    await turnsElsewhere(5);
    expect(throttle.queueLength("interactive")).toBe(3);
    expect(await ask("quiet", "c")).toBe("c");
    expect(await hogs[2]).toBe("c");
    expect(paid()).toEqual({ hog: 6, quiet: 2 });
    expect(throttle.queueLength("interactive")).toBe(2);
    await advanceUntil(Promise.all(hogs), clock, 4_000);
    expect(await Promise.all(hogs)).toEqual(["a", "b", "c"]);
    expect(paid()).toEqual({ hog: 8, quiet: 2 });
    expect(reports.refused).toEqual([]);
  });

  it("goes as that of the app whose caller was there before it came to the queue, and is not refused", async () => {
    const looked = Promise.withResolvers<void>();
    const { ask, paid, reports } = await hogOverItsShare(() => looked.promise);
    const hasty = { forMs: 5_000 };
    const both = [ask("hog", "a", hasty), ask("quiet", "a", hasty)];
    looked.resolve();
    expect(await Promise.all(both)).toEqual(["a", "a"]);
    expect(paid()).toEqual({ hog: 6, quiet: 2 });
    expect(reports.refused).toEqual([]);
  });

  it("is refused on account of that app where no other's turn would come in time", async () => {
    const looked = Promise.withResolvers<void>();
    const { ask, throttled, reports } = await hogOverItsShare(() => looked.promise);
    for (let sent = 0; sent < 3; sent++) await throttled(atOnce, undefined, { app: "quiet" });
    const both = [ask("hog", "a", { forMs: 5_000 }), ask("quiet", "a", { forMs: 5_000 })];
    looked.resolve();
    for (const refused of both) expect(await refused).toMatchObject({ details: { ofApp: "hog" } });
    expect(reports.refused).toEqual(["hog: share"]);
  });

  it("waits on in that app's share where the others have left before their turn", async () => {
    const { ask, paid, throttled, clock } = await hogOverItsShare();
    // Nothing is left of the window, for anybody.
    for (let sent = 0; sent < 3; sent++) await throttled(atOnce, undefined, { app: "quiet" });
    const [asked, leaving] = [ask("hog", "a", { forMs: 2 * MINUTE }), new AbortController()];
    await turnsElsewhere(2);
    const left = ask("quiet", "a", { forMs: 2 * MINUTE, gone: leaving.signal });
    leaving.abort();
    expect(await left).toMatchObject({ name: "CallerGone" });
    await advanceUntil(asked, clock, 4_000);
    expect(await asked).toBe("a");
    expect(paid()).toEqual({ hog: 7, quiet: 4 });
  });

  it("is one of those who are left where that app's own callers have gone", async () => {
    const { ask, paid, throttle, clock, allowance } = await hogOverItsShare();
    // The upstream asks for rest, so that quiet has to wait, too.
    allowance.settle(await granted(allowance, "quiet"), {
      ...HOME,
      status: 429,
      slowDown: { cause: "too-many-requests", forMs: 20_000 },
    });
    const leaving = new AbortController();
    const left = ask("hog", "a", { gone: leaving.signal });
    await turnsElsewhere(2);
    const stays = ask("quiet", "a");
    await settled();
    leaving.abort();
    await left;
    expect(throttle.queueLength("interactive")).toBe(1);
    await advanceUntil(stays, clock, 5_000);
    expect(await stays).toBe("a");
    expect(paid()).toEqual({ hog: 6, quiet: 2 });
  });
});

async function granted(
  allowance: Allowance,
  app: string,
): Promise<Extract<Taken, { kind: "granted" }>["grant"]> {
  return await allowance.takeAnyway({
    app,
    priority: "interactive",
    resource: "listings",
    cause: "miss",
    query: "",
  });
}

describe("a call far back in the queue of one app", () => {
  it("takes the turn of another that joins it, where calls at once are what is waited for", async () => {
    const { ask, throttled, paid } = callers({ concurrency: 1, terms: { apps: EVENLY } });
    const stuck = heldJob();
    const held = throttled(stuck.job, undefined, { app: "hog" });
    await stuck.started;
    const order: unknown[] = [];
    const keys = Array.from({ length: 20 }, (_, index) => `${index}`);
    const all = keys.map((key) => ask("hog", key).then((brought) => order.push(brought)));
    await turnsElsewhere(2);
    const joined = ask("quiet", "19");
    stuck.finish();
    expect(await joined).toBe("19");
    await Promise.all([held, ...all]);
    expect(order.indexOf("19")).toBeLessThanOrEqual(1);
    expect(order).toHaveLength(20);
    expect(paid()).toEqual({ hog: 20, quiet: 1 });
  });

  it("counts once, and goes before those who come later from any app that waits for it", async () => {
    const { ask, throttled, throttle, clock } = callers({
      concurrency: 1,
      windows: [{ limit: 9, windowMs: MINUTE }],
    });
    const stuck = heldJob();
    const held = throttled(stuck.job);
    await stuck.started;
    const patient = { forMs: 10 * MINUTE };
    const all = [1, 2, 3, 4, 5, 6, 7].map((key) => ask("hog", `${key}`, patient));
    await turnsElsewhere(2);
    for (const key of [1, 2, 3]) all.push(ask("quiet", `${key}`, patient));
    expect(throttle.queueLength("interactive")).toBe(7);
    const forMsOf = (app: string): number =>
      throttle.expect({ app, priority: "interactive", resource: "listings" }).forMs;
    // One place is left behind the one that is taken and those seven.
    expect(["hog", "quiet", "third"].map(forMsOf)).toEqual([0, 0, 0]);
    for (const key of [8, 9]) all.push(ask("quiet", `${key}`, patient));
    await turnsElsewhere(2);
    // Before quiet's next one: five that it waits for, and the hog's four.
    expect(["hog", "quiet", "third"].map(forMsOf)).toEqual([MINUTE + 1, MINUTE + 1, 0]);
    stuck.finish();
    await held;
    await advanceUntil(Promise.all(all), clock, MINUTE / 2);
  });
});

describe("a call that would go as either app's", () => {
  it("is paid for by the one that started it, whoever has had less", async () => {
    const windows = [{ limit: 1, windowMs: MINUTE }];
    const { ask, throttled, paid, clock } = callers({ windows, terms: { apps: EVENLY } });
    await throttled(atOnce, undefined, { app: "hog" });
    const both = [ask("hog", "a", { forMs: 2 * MINUTE }), ask("quiet", "a", { forMs: 2 * MINUTE })];
    await clock.armed(MINUTE + 1);
    await clock.advance(MINUTE + 1);
    expect(await Promise.all(both)).toEqual(["a", "a"]);
    expect(paid()).toEqual({ hog: 2 });
  });

  it("is asked for as the others' where the one that started it has no place after all", async () => {
    const asked: string[][] = [];
    const { allowance } = createSetting({ terms: { apps: EVENLY } });
    const begin = Promise.withResolvers<void>();
    const slow: Allowance = {
      ...allowance,
      async take(wishes: readonly Wish[]) {
        asked.push(wishes.map(({ app }) => app));
        await begin.promise;
        const wish = wishes.find(({ app }) => app === "quiet");
        if (wish === undefined) return { kind: "wait", forMs: 10 };
        return { kind: "granted", grant: { id: "a", wish } };
      },
    };
    const { ask } = callers({ allowance: slow });
    const both = [ask("hog", "a")];
    await turnsElsewhere(2);
    both.push(ask("quiet", "a"));
    begin.resolve();
    expect(await Promise.all(both)).toEqual(["a", "a"]);
    expect(asked).toEqual([["hog"], ["hog"], ["hog", "quiet"]]);
  });

  it("gives back a place that comes for an app whose callers have gone meanwhile", async () => {
    const { allowance } = createSetting({ terms: { apps: EVENLY } });
    const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const givenBack: string[] = [];
    const slow: Allowance = {
      ...allowance,
      expect: (candidate, queued) => ({ ...allowance.expect(candidate, queued), forMs: 1 }),
      giveBack: ({ id }) => void givenBack.push(id),
      async take(wishes) {
        const wish = wishes.find(({ app }) => app === "quiet");
        if (wish === undefined) return { kind: "wait", forMs: 1_000 };
        asked.resolve();
        await answer.promise;
        return { kind: "granted", grant: { id: "quiet's", wish } };
      },
    };
    const { ask, clock, throttle } = callers({ allowance: slow });
    const hogs = ask("hog", "a", { forMs: 20_000 });
    await turnsElsewhere(2);
    const leaving = new AbortController();
    const left = ask("quiet", "a", { gone: leaving.signal });
    await asked.promise;
    leaving.abort();
    await left;
    answer.resolve();
    await settled();
    expect(givenBack).toEqual(["quiet's"]);
    expect(throttle.queueLength("interactive")).toBe(1);
    await clock.advance(20_000);
    expect(await hogs).toMatchObject({ details: { late: true } });
  });
});

describe("the upstream's rest", () => {
  it("is looked up once for each kind of call that waits, however many there are and wait for each", async () => {
    const setting = createSetting({ concurrency: 1, terms: { apps: EVENLY } });
    let looks = 0;
    const counting: Allowance = {
      ...setting.allowance,
      expect(candidate, queued) {
        looks += 1;
        return setting.allowance.expect(candidate, queued);
      },
    };
    const { ask, throttled, reports } = callers({ concurrency: 1, allowance: counting });
    const stuck = heldJob({ ...HOME, status: 429, slowDown: { cause: "too-many-requests", forMs: 30_000 } });
    const held = throttled(stuck.job);
    await stuck.started;
    const keys = Array.from({ length: 50 }, (_, index) => `${index}`);
    const hasty = keys.map((key) => ask("hog", key, { forMs: 29_999 }));
    await turnsElsewhere(2);
    hasty.push(...keys.map((key) => ask("quiet", key, { forMs: 29_999 })));
    const patient = ask("quiet", "0", { forMs: 30_001 });
    await turnsElsewhere(2);
    looks = 0;
    stuck.finish();
    await held;
    for (const refused of hasty.filter((_, index) => index % 50 !== 0))
      expect(await refused).toMatchObject({ code: "upstream-unavailable" });
    expect(reports.refused).toEqual(Array(49).fill("hog: cool-off"));
    // Two kinds, each time that something changes: after the send, and as those who are refused leave.
    expect(looks).toBeLessThan(20);
    void patient;
  });
});

describe("whoever joins", () => {
  const STEP_MS = 1_000;

  it("is answered no later than with a call of its own", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(1_000), { minLength: 6, maxLength: 12 }),
        fc.integer({ min: 2, max: 6 }),
        fc.nat(5),
        async (hogAfterMs, limit, fromEnd) => {
          const last = hogAfterMs.length - 1;
          const answeredAfterMs = async (key: string): Promise<number> => {
            const clock = createFakeClock();
            const windows = [{ limit, windowMs: 10_000 }];
            const { ask, throttle } = callers({ windows, clock, terms: { apps: EVENLY } });
            const all = [ask("quiet", "before")];
            for (const [index, afterMs] of hogAfterMs.entries()) {
              all.push(ask("hog", `${index}`, { forMs: 10 * MINUTE }));
              await turnsElsewhere(3);
              await clock.advance(afterMs);
            }
            const askedAt = clock.now();
            let answeredAt = Number.POSITIVE_INFINITY;
            all.push(ask("quiet", key, { forMs: 10 * MINUTE }).then(() => (answeredAt = clock.now())));
            await advanceUntil(Promise.all(all), clock, STEP_MS);
            expect(throttle.queueLength("interactive")).toBe(0);
            return answeredAt - askedAt;
          };
          // Time goes in steps, so that it is known to within one.
          expect(await answeredAfterMs(`${last - fromEnd}`)).toBeLessThanOrEqual(
            (await answeredAfterMs("own")) + STEP_MS,
          );
        },
      ),
      { numRuns: 8 },
    );
  });
});

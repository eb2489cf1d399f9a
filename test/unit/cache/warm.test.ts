import { describe, expect, it } from "vitest";

import { createWarm, type Warm, type WarmItem } from "../../../src/cache/warm.ts";
import type { CacheRules } from "../../../src/cache/ttl.ts";
import type { Entry } from "../../../src/cache/entry.ts";
import type { RefreshEnd } from "../../../src/telemetry/events.ts";
import { entryWith } from "../../support/entries.ts";
import { createFakeClock, settled, type FakeClock } from "../../support/fake-clock.ts";
import { questionWith, requestWith } from "../../support/question.ts";
import { rulesWith } from "../../support/rules.ts";

const TTL_MS = 300_000;
const AGAIN_MS = TTL_MS * 0.9;

interface Setup {
  readonly clock: FakeClock;
  readonly warm: Warm;
  /** An item of this name. */
  readonly item: (name: string, everyMs?: number) => WarmItem;
  /** The fetches with their times in milliseconds from the start. */
  readonly fetched: readonly (readonly [canonicalQuery: string, atMs: number])[];
  readonly cached: Map<string, { entry: Entry; isPurged: boolean }>;
  readonly ended: readonly string[];
}

interface SetupOptions {
  readonly items?: readonly Pick<WarmItem, "everyMs">[];
  /** Stores the answer of a fetch. @returns how the fetch ends */
  readonly fetch?: (store: (lifeMs?: number) => void, nth: number) => Promise<RefreshEnd>;
  readonly fraction?: () => number;
  readonly rules?: Partial<CacheRules>;
}

const bringing: NonNullable<SetupOptions["fetch"]> = async (store) => {
  store();
  return "refreshed";
};

/** Items are called `0`, `1` and so on. */
function setup(options: SetupOptions = {}): Setup {
  const { items = [{ everyMs: null }], fetch = bringing, fraction = () => 0, rules = {} } = options;
  const clock = createFakeClock();
  const startAt = clock.now();
  const cached: Setup["cached"] = new Map();
  const fetched: [string, number][] = [];
  const ended: string[] = [];
  const item = (name: string, everyMs: number | null = null): WarmItem => ({
    question: questionWith(requestWith(startAt), name),
    everyMs,
  });
  const warm = createWarm({
    items: items.map(({ everyMs }, index) => item(String(index), everyMs)),
    tiers: {
      async lookup(key) {
        const found = cached.get(key);
        return found && { ...found, tier: "memory" };
      },
    },
    sourceOf: async (question) => question,
    refresh({ canonicalQuery, key }, _held, cause) {
      expect(cause).toBe("warm");
      fetched.push([canonicalQuery, clock.now() - startAt]);
      return fetch((lifeMs = TTL_MS) => {
        const entry = entryWith("{}", clock.now(), { freshUntil: clock.now() + lifeMs });
        cached.set(key, { entry, isPurged: false });
      }, fetched.length);
    },
    rules: () => rulesWith(rules),
    clock,
    random: { fraction },
    observer: { warmed: (resource, end) => void ended.push(`${resource} ${end}`) },
  });
  return { clock, warm, item, fetched, cached, ended };
}

const timesOf = ({ fetched }: Setup): number[] => fetched.map(([, atMs]) => atMs);

describe("keeping warm", () => {
  it.each([
    [0.25, 500],
    [0.5, 1_000],
    [0.999, 1_998],
  ])("starts within two seconds, each replica at another time (random: %f)", async (random, afterMs) => {
    const all = setup({ fraction: () => random });
    all.warm.start();
    await all.clock.advance(afterMs - 1);
    expect(all.fetched).toEqual([]);
    await all.clock.advance(1);
    expect(timesOf(all)).toEqual([afterMs]);
    expect(all.ended).toEqual(["listings refreshed"]);
  });

  it("notices within a minute that an answer was purged or removed", async () => {
    const { key } = questionWith(requestWith(0), "0");
    for (const lose of [
      (cached: Setup["cached"]): unknown => cached.delete(key),
      (cached: Setup["cached"]): unknown => cached.set(key, { entry: entryWith("{}", 0), isPurged: true }),
    ]) {
      const all = setup();
      all.warm.start();
      await all.clock.advance(1_000);
      expect(all.fetched).toHaveLength(1);
      lose(all.cached);
      await all.clock.advance(60_000);
      expect(all.fetched).toHaveLength(2);
      all.warm.stop();
    }
  });

  it("fetches at once what is purged, or older than maxAgeEver", async () => {
    const { key } = questionWith(requestWith(0), "0");
    const purged = setup();
    purged.cached.set(key, { entry: entryWith("{}", purged.clock.now()), isPurged: true });
    const old = setup({ rules: { maxAgeEverMs: 1_000 } });
    old.cached.set(key, { entry: entryWith("{}", old.clock.now() - 61_000), isPurged: false });
    for (const all of [purged, old]) {
      all.warm.start();
      await all.clock.advance(0);
      expect(all.fetched).toHaveLength(1);
      all.warm.stop();
    }
  });

  it.each<[RefreshEnd, number]>([
    ["refused", 15_000],
    ["failed", 60_000],
    ["skipped", 1_000],
  ])("retries what was %s after half to one and a half of %i ms", async (end, aboutMs) => {
    for (const random of [0, 0.5, 0.999]) {
      const all = setup({ fetch: async () => end, fraction: () => random });
      const waitMs = aboutMs * (0.5 + random);
      all.warm.start();
      await all.clock.advance(random * 2_000 + waitMs - 1);
      expect(all.warm.states()).toMatchObject([{ last: end, dueInSeconds: 1 }]);
      expect(all.fetched).toHaveLength(1);
      await all.clock.advance(1);
      expect(all.fetched).toHaveLength(2);
      all.warm.stop();
    }
  });

  it("does not fetch again and again what may not be stored", async () => {
    const all = setup({ fetch: async () => "refreshed", fraction: () => 0.5 });
    all.warm.start();
    await all.clock.advance(10 * 60_000);
    expect(timesOf(all)).toEqual([
      1_000, 61_000, 121_000, 181_000, 241_000, 301_000, 361_000, 421_000, 481_000, 541_000,
    ]);
  });

  it("rarely fetches an answer with a short lifetime from the upstream, unless the list has an interval", async () => {
    const shortly: SetupOptions["fetch"] = async (store) => {
      store(0);
      return "refreshed";
    };
    const all = setup({ fetch: shortly });
    all.warm.start();
    await all.clock.advance(130_000);
    expect(timesOf(all)).toEqual([0, 60_000, 120_000]);
    const often = setup({ fetch: shortly, items: [{ everyMs: 1_000 }] });
    often.warm.start();
    await often.clock.advance(3_000);
    expect(timesOf(often)).toEqual([0, 1_000, 2_000, 3_000]);
  });

  it("ends when it is stopped, also during a fetch", async () => {
    const door = Promise.withResolvers<RefreshEnd>();
    const all = setup({ fetch: () => door.promise });
    all.warm.start();
    await all.clock.advance(0);
    all.warm.stop();
    door.resolve("refreshed");
    await settled();
    expect(all.clock.pending).toBe(0);
    const idle = setup();
    idle.warm.start();
    idle.warm.stop();
    await idle.clock.advance(10_000);
    expect(idle.fetched).toEqual([]);
  });

  it("fetches by the new list after the current fetch of the old one", async () => {
    const door = Promise.withResolvers<RefreshEnd>();
    const all = setup({ fetch: (store, nth) => (nth === 1 ? door.promise : bringing(store, nth)) });
    all.warm.start();
    await all.clock.advance(0);
    all.warm.replace([all.item("1")]);
    await all.clock.advance(60_000);
    // One after the other, also across lists.
    expect(all.fetched.map(([text]) => text)).toEqual(["0"]);
    door.resolve("refreshed");
    await settled();
    await all.clock.advance(0);
    expect(all.fetched.map(([text]) => text)).toEqual(["0", "1"]);
    await all.clock.advance(AGAIN_MS);
    expect(all.fetched.map(([text]) => text)).toEqual(["0", "1", "1"]);
  });

  it("ends with an empty list, and starts again with the next one", async () => {
    const door = Promise.withResolvers<RefreshEnd>();
    const all = setup({ fetch: (store, nth) => (nth === 1 ? door.promise : bringing(store, nth)) });
    all.warm.start();
    await all.clock.advance(0);
    all.warm.replace([]);
    door.resolve("refreshed");
    await settled();
    expect([all.clock.pending, all.warm.states()]).toEqual([0, []]);
    all.warm.replace([all.item("1")]);
    await all.clock.advance(0);
    expect(all.fetched.map(([text]) => text)).toEqual(["0", "1"]);
    all.warm.stop();
    all.warm.replace([all.item("2")]);
    expect(all.clock.pending).toBe(0);
  });
});

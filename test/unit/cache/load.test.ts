import { describe, expect, it } from "vitest";

import { createFailures } from "../../../src/cache/failures.ts";
import { createMemoryStore, type MemoryStore } from "../../../src/cache/store/memory.ts";
import {
  createObtain,
  type Flown,
  isAnothersRefusal,
  type Kept,
  type Obtain,
} from "../../../src/cache/load.ts";
import { createTiers, type Tiers } from "../../../src/cache/store/tiered.ts";
import { createFly } from "../../../src/singleflight/replicas.ts";
import { createFlights } from "../../../src/singleflight/flight.ts";
import { Problem } from "../../../src/errors.ts";
import type { Cause, Entry, Fetched, RefreshRecord, Validators } from "../../../src/types.ts";
import { entryWith, fetchedWith, notModifiedWith } from "../../support/entries.ts";
import { createFakeClock, settled, type FakeClock } from "../../support/fake-clock.ts";
import { questionWith, requestWith } from "../../support/question.ts";
import { rulesWith } from "../../support/rules.ts";

const FOUND = fetchedWith();
const VALIDATORS: Validators = { etag: '"7"', lastModified: undefined };

interface Setup {
  readonly clock: FakeClock;
  readonly tiers: Tiers;
  readonly obtain: (wanted?: { held?: Entry; cause?: Cause }) => ReturnType<Obtain>;
  /** By what each fetch asked for something newer. */
  readonly askedBy: readonly (Validators | undefined)[];
  readonly refreshed: readonly RefreshRecord[];
  /** Whether it failed so recently that it is not to be tried again yet. */
  readonly isLeftAlone: () => boolean;
}

const QUESTION = questionWith(requestWith(0));

/** @param shared where other replicas keep their answers too; what they say of that does not arrive */
function setup(upstream: (nth: number) => Promise<Fetched>, shared?: MemoryStore): Setup {
  const clock = createFakeClock();
  const backend = shared && {
    store: shared,
    purge: () => Promise.reject(new Error("not asked for")),
    onEvent: () => undefined,
    claims: undefined,
    close: async () => undefined,
  };
  const tiers = createTiers({ memory: createMemoryStore(80_000, clock), backend, clock });
  const failures = createFailures();
  const askedBy: (Validators | undefined)[] = [];
  const refreshed: RefreshRecord[] = [];
  const obtain = createObtain({
    tiers,
    coalesce: createFlights<Flown>(clock).join,
    fly: createFly<Kept>(undefined),
    fetch: (_question, _waiting, { held }) => upstream(askedBy.push(held)),
    failures,
    rules: () => rulesWith(),
    clock,
    observer: { refreshed: (record) => void refreshed.push(record) },
  });
  return {
    clock,
    tiers,
    askedBy,
    refreshed,
    isLeftAlone: () => failures.standing(QUESTION.key, clock.now()) !== undefined,
    obtain: ({ held, cause = "miss" } = {}) =>
      obtain({ question: QUESTION, held, cause, waiter: requestWith(clock.now()) }),
  };
}

describe("what somebody else has brought meanwhile", () => {
  it("is taken where it is newer than what is held", async () => {
    const { clock, tiers, obtain, askedBy } = setup(async () => FOUND);
    await tiers.keep(QUESTION.key, entryWith("newer", clock.now()));
    const { flown } = await obtain({ held: entryWith("older", clock.now() - 1) });
    expect([flown.how, flown.value.tier, askedBy]).toEqual(["found", "memory", []]);
  });

  it("is taken from another replica, also where its message that it has it is still on its way", async () => {
    const shared = createMemoryStore(80_000, createFakeClock());
    const { clock, tiers, obtain, askedBy } = setup(async () => FOUND, shared);
    const held = entryWith("older", clock.now() - 1);
    await tiers.keep(QUESTION.key, held);
    await shared.set(QUESTION.key, entryWith("newer", clock.now()));
    const { flown } = await obtain({ held, cause: "refresh" });
    expect([flown.how, flown.value.entry.storedAt, askedBy]).toEqual(["found", clock.now(), []]);
    expect((await tiers.lookup(QUESTION.key))?.entry.storedAt).toBe(clock.now());
  });

  it.each<[string, number, Partial<Entry>]>([
    ["is as old as what is held, although it is fresh", 0, {}],
    ["has expired", 1, { freshUntil: 0 }],
  ])("is not taken where it %s", async (_name, newerByMs, changes) => {
    const { clock, tiers, obtain, askedBy } = setup(async () => FOUND);
    await tiers.keep(QUESTION.key, entryWith("{}", clock.now(), changes));
    const { flown } = await obtain({ held: entryWith("{}", clock.now() - newerByMs) });
    expect([flown.how, askedBy]).toEqual(["fetched", [undefined]]);
  });

  it("is not taken where it was purged", async () => {
    const { clock, tiers, obtain, askedBy } = setup(async () => FOUND);
    await tiers.keep(QUESTION.key, entryWith("{}", clock.now()));
    await tiers.purge({ kind: "all" }, false);
    expect((await obtain()).flown.how).toBe("fetched");
    expect(askedBy).toHaveLength(1);
  });
});

describe("the upstream is asked whether what is held is still true", () => {
  it("where that is a good answer with a validator, and its word for it is kept", async () => {
    const { clock, obtain, askedBy, refreshed, tiers } = setup(async () => notModifiedWith());
    const held = entryWith("{}", clock.now() - 1, { validators: VALIDATORS });
    const { flown } = await obtain({ held });
    expect(askedBy).toEqual([VALIDATORS]);
    expect(flown.value.entry).toMatchObject({
      etag: held.etag,
      storedAt: clock.now(),
      validators: VALIDATORS,
    });
    expect(refreshed).toMatchObject([{ resource: "listings", change: "not-modified" }]);
    expect((await tiers.lookup(QUESTION.key))?.entry.storedAt).toBe(clock.now());
  });

  it.each<[string, Partial<Entry>]>([
    ["it has no validator", {}],
    ["it says that there is nothing", { status: 404, validators: VALIDATORS }],
  ])("but not where %s", async (_name, changes) => {
    const { clock, obtain, askedBy } = setup(async () => FOUND);
    await obtain({ held: entryWith("{}", clock.now() - 1, changes) });
    expect(askedBy).toEqual([undefined]);
  });
});

describe("a flight that fails", () => {
  it("is one failure, however many wait for it; the next that succeeds ends that", async () => {
    const { clock, obtain, isLeftAlone } = setup(async (nth) => {
      if (nth <= 2) throw new Problem("upstream-error");
      return FOUND;
    });
    const failed = await Promise.allSettled([obtain(), obtain(), obtain()]);
    expect(failed.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    await clock.advance(4_999);
    expect(isLeftAlone()).toBe(true);
    await clock.advance(1);
    expect(isLeftAlone()).toBe(false);
    await expect(obtain()).rejects.toMatchObject({ code: "upstream-error" });
    await clock.advance(9_999);
    expect(isLeftAlone()).toBe(true);
    await obtain();
    expect(isLeftAlone()).toBe(false);
  });

  it.each([
    ["was refused here", new Problem("temporary-reduced-capacity")],
    [
      "was refused because the upstream is left alone",
      new Problem("upstream-unavailable", { refusedHere: true }),
    ],
    ["met a mistake of the gateway", new TypeError("a mistake")],
  ])("because it %s says nothing of the upstream", async (_name, error) => {
    const { obtain, isLeftAlone } = setup(() => Promise.reject(error));
    await expect(obtain()).rejects.toThrow();
    expect(isLeftAlone()).toBe(false);
  });
});

describe("that there was no place", () => {
  const refusal = new Problem("temporary-reduced-capacity", { retryAfterSeconds: 7 });

  it.each<[Cause, boolean]>([
    ["refresh", true],
    ["warm", true],
    ["miss", false],
    ["forced", false],
  ])(
    "for a flight launched for %s is another's affair to those who joined it: %s",
    async (cause, isAnothers) => {
      const door = Promise.withResolvers<Fetched>();
      const { obtain, askedBy } = setup(() => door.promise);
      const both = Promise.allSettled([obtain({ cause }), obtain()]);
      await settled();
      door.reject(refusal);
      const errors = (await both).map((end) => (end.status === "rejected" ? (end.reason as unknown) : end));
      expect([askedBy.length, errors[0] === errors[1]]).toEqual([1, true]);
      expect(errors[0]).toMatchObject({ code: refusal.code, details: { retryAfterSeconds: 7 } });
      expect(isAnothersRefusal(errors[0], "other")).toBe(isAnothers);
    },
  );

  it("of an app's share is another's affair to all but that app", () => {
    const ofApp = new Problem("quota-exceeded", { ofApp: "batch" });
    expect([isAnothersRefusal(ofApp, "web"), isAnothersRefusal(ofApp, "batch")]).toEqual([true, false]);
    expect(isAnothersRefusal(new TypeError("a mistake"), "web")).toBe(false);
  });

  it("is told from a failure, which is everybody's", async () => {
    const { obtain } = setup(() => Promise.reject(new Problem("upstream-error")));
    const error = await obtain({ cause: "refresh" }).catch((caught: unknown) => caught);
    expect(isAnothersRefusal(error, "other")).toBe(false);
  });
});

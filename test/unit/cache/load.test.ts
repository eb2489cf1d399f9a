import { describe, expect, it } from "vitest";

import { createChecks } from "../../../src/cache/lifetimes/checks.ts";
import { createFailures } from "../../../src/cache/recent-failures.ts";
import { createMemoryStore, type MemoryStore } from "../../../src/cache/store/memory.ts";
import { createLifetimes } from "../../../src/cache/lifetimes/lifetimes.ts";
import { createLoad, type Load, type LoadedEntry } from "../../../src/cache/load.ts";
import { Tiers } from "../../../src/cache/store/tiered.ts";
import { createLeadOrFollow } from "../../../src/singleflight/replicas.ts";
import { createFlights, type FlightResult } from "../../../src/singleflight/flight.ts";
import { Problem } from "../../../src/errors.ts";
import type { Cause } from "../../../src/telemetry/events.ts";
import type { Entry } from "../../../src/cache/entry.ts";
import type { Validators } from "../../../src/upstream/caching-headers.ts";
import type { Fetched } from "../../../src/upstream/verdict.ts";
import { entryWith, fetchedWith } from "../../support/entries.ts";
import { storeIn } from "../../support/store.ts";
import { createFakeClock, settled, type FakeClock } from "../../support/fake-clock.ts";
import { questionWith, requestWith } from "../../support/question.ts";
import { rulesWith } from "../../support/rules.ts";

const FOUND = fetchedWith();
const VALIDATORS: Validators = { etag: '"7"', lastModified: undefined };

interface Setup {
  readonly clock: FakeClock;
  readonly tiers: Tiers;
  readonly load: (request?: { cached?: Entry; cause?: Cause; app?: string }) => ReturnType<Load>;
  /** By what each fetch asked for something newer. */
  readonly askedBy: readonly (Validators | undefined)[];
  readonly flights: {
    /** The next flight ends without a result, as when its leader in another replica died. */
    readonly withdrawNext: (first?: () => Promise<void>) => void;
  };
  readonly flightsUnderWay: () => number;
  /** Whether it failed so recently that it is not to be tried again yet. */
  readonly isLeftAlone: () => boolean;
}

const QUESTION = questionWith(requestWith(0));

/** @param shared where other replicas keep their answers too; what they say of that does not arrive */
function setup(
  upstream: (nth: number) => Promise<Fetched>,
  shared?: MemoryStore,
  write?: () => Promise<true>,
): Setup {
  const clock = createFakeClock();
  const store = shared && storeIn(shared, write === undefined ? {} : { set: write });
  const tiers = new Tiers({ memory: createMemoryStore(80_000, clock), store, clock });
  const failures = createFailures();
  const askedBy: (Validators | undefined)[] = [];
  let withdraw: (() => Promise<void>) | undefined;
  const leadOrFollow = createLeadOrFollow<LoadedEntry>(undefined);
  const flights = createFlights<FlightResult<LoadedEntry> | undefined>(clock);
  const lifetimes = createLifetimes(() => "fixed");
  const checks = createChecks({ budgetLeft: () => 1, failed: () => expect.unreachable() });
  const load = createLoad({
    tiers,
    joinFlight: flights.join,
    async leadOrFollow(...flight) {
      if (withdraw === undefined) return await leadOrFollow(...flight);
      const first = withdraw;
      withdraw = undefined;
      await first();
      return undefined;
    },
    fetch: (_question, _waiting, { cached }) => upstream(askedBy.push(cached)),
    failures,
    rules: () => rulesWith(),
    lifetimes,
    checks,
    replicas: () => 1,
    clock,
    observer: { refreshed: () => undefined },
  });
  return {
    clock,
    tiers,
    askedBy,
    flights: { withdrawNext: (first = async () => undefined) => void (withdraw = first) },
    flightsUnderWay: () => flights.size,
    isLeftAlone: () => failures.recent(QUESTION.key, clock.now()) !== undefined,
    load: ({ cached, cause = "miss", app = "web" } = {}) =>
      load({
        question: QUESTION,
        cached,
        cause,
        waiter: { ...requestWith(clock.now()), gone: new AbortController().signal, app },
      }),
  };
}

describe("an answer that another flight has stored", () => {
  it("is used if it is newer than the cached one", async () => {
    const { clock, tiers, load, askedBy } = setup(async () => FOUND);
    await tiers.keep(QUESTION.key, entryWith("newer", clock.now()));
    const loaded = await load({ cached: entryWith("older", clock.now() - 1) });
    expect([loaded.how, loaded.value.tier, askedBy]).toEqual(["found", "memory", []]);
  });

  it("is used from another replica also before its message arrives", async () => {
    const shared = createMemoryStore(80_000, createFakeClock());
    const { clock, tiers, load, askedBy } = setup(async () => FOUND, shared);
    const cached = entryWith("older", clock.now() - 1);
    await tiers.keep(QUESTION.key, cached);
    shared.put(QUESTION.key, entryWith("newer", clock.now()));
    const loaded = await load({ cached: cached, cause: "refresh" });
    expect([loaded.how, loaded.value.entry.storedAt, askedBy]).toEqual(["found", clock.now(), []]);
    expect((await tiers.lookup(QUESTION.key))?.entry.storedAt).toBe(clock.now());
  });

  it.each<[string, number, Partial<Entry>]>([
    ["is as old as what is cached, although it is fresh", 0, {}],
    ["has expired", 1, { freshUntil: 0 }],
  ])("is not used if it %s", async (_name, newerByMs, changes) => {
    const { clock, tiers, load, askedBy } = setup(async () => FOUND);
    await tiers.keep(QUESTION.key, entryWith("{}", clock.now(), changes));
    const loaded = await load({ cached: entryWith("{}", clock.now() - newerByMs) });
    expect([loaded.how, askedBy]).toEqual(["fetched", [undefined]]);
  });

  it("is not used if it was purged", async () => {
    const { clock, tiers, load, askedBy } = setup(async () => FOUND);
    await tiers.keep(QUESTION.key, entryWith("{}", clock.now()));
    await tiers.purge({ kind: "all" }, false);
    expect((await load()).how).toBe("fetched");
    expect(askedBy).toHaveLength(1);
  });
});

describe("a fetched answer", () => {
  it("is given to its callers before it is in the store, and its flight ends when it is", async () => {
    const { promise: written, resolve: write } = Promise.withResolvers<true>();
    const shared = createMemoryStore(80_000, createFakeClock());
    const { load, flightsUnderWay } = setup(
      async () => FOUND,
      shared,
      () => written,
    );
    const { how, value } = await load();
    expect([how, value.stored, flightsUnderWay()]).toEqual(["fetched", true, 1]);
    write(true);
    await settled();
    expect(flightsUnderWay()).toBe(0);
  });
});

describe("a conditional request", () => {
  it.each<[string, Partial<Entry>]>([
    ["it has no validator", {}],
    ["it says that there is nothing", { status: 404, validators: VALIDATORS }],
  ])("is not sent if %s", async (_name, changes) => {
    const { clock, load, askedBy } = setup(async () => FOUND);
    await load({ cached: entryWith("{}", clock.now() - 1, changes) });
    expect(askedBy).toEqual([undefined]);
  });
});

describe("a flight that fails", () => {
  it("counts once for all its waiters, until the next success", async () => {
    const { clock, load, isLeftAlone } = setup(async (nth) => {
      if (nth <= 2) throw new Problem("upstream-error");
      return FOUND;
    });
    const failed = await Promise.allSettled([load(), load(), load()]);
    expect(failed.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    await clock.advance(4_999);
    expect(isLeftAlone()).toBe(true);
    await clock.advance(1);
    expect(isLeftAlone()).toBe(false);
    await expect(load()).rejects.toMatchObject({ code: "upstream-error" });
    await clock.advance(9_999);
    expect(isLeftAlone()).toBe(true);
    await load();
    expect(isLeftAlone()).toBe(false);
  });

  it.each([
    ["was refused here", new Problem("temporary-reduced-capacity")],
    [
      "was refused because the upstream is left alone",
      new Problem("upstream-unavailable", { refusedHere: true }),
    ],
    ["met a mistake of the gateway", new TypeError("a mistake")],
  ])("because it %s does not count as a failure of the upstream", async (_name, error) => {
    const { load, isLeftAlone } = setup(() => Promise.reject(error));
    await expect(load()).rejects.toThrow();
    expect(isLeftAlone()).toBe(false);
  });
});

describe("a flight that was refused because of the request that started it", () => {
  const refusal = new Problem("temporary-reduced-capacity", { retryAfterSeconds: 7 });
  const ofApp = new Problem("quota-exceeded", { ofApp: "batch" });
  const failure = new Problem("upstream-error");

  it.each<[string, Cause, Error, string[]]>([
    ["a refresh without room", "refresh", refusal, [refusal.code, "loaded"]],
    ["a warming without room", "warm", refusal, [refusal.code, "loaded"]],
    ["a caller without room, which counts for all", "miss", refusal, [refusal.code, refusal.code]],
    ["an app without budget", "miss", ofApp, [ofApp.code, "loaded"]],
    ["a refresh that failed, which counts for all", "refresh", failure, [failure.code, failure.code]],
  ])(
    "%s: its other waiters try again unless the reason applies to all",
    async (_name, cause, error, ends) => {
      const door = Promise.withResolvers<Fetched>();
      const { load, askedBy } = setup((nth) => (nth === 1 ? door.promise : Promise.resolve(FOUND)));
      const both = [load({ cause, app: "batch" }), load()].map((one) =>
        one.then(
          () => "loaded",
          (caught: unknown) => (caught instanceof Problem ? caught.code : String(caught)),
        ),
      );
      await settled();
      door.reject(error);
      expect(await Promise.all(both)).toEqual(ends);
      expect(askedBy).toHaveLength(ends.includes("loaded") ? 2 : 1);
    },
  );
});

describe("a flight that ended without an answer for this caller", () => {
  it("is followed by one more flight for all remaining waiters", async () => {
    const { load, askedBy, flights } = setup(async () => FOUND);
    flights.withdrawNext();
    const [one, other] = await Promise.all([load(), load()]);
    expect([one.how, other.how, askedBy.length]).toEqual(["fetched", "fetched", 1]);
  });

  it("is not followed by another one after the deadline", async () => {
    const { load, clock, askedBy, flights } = setup(async () => FOUND);
    flights.withdrawNext(() => clock.advance(60_000));
    await expect(load()).rejects.toMatchObject({ code: "deadline-exceeded" });
    expect(askedBy).toEqual([]);
  });
});

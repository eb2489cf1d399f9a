import { expect, it, vi } from "vitest";

import { Failures } from "../../../src/cache/recent-failures.ts";
import { createMemoryStore } from "../../../src/cache/store/memory.ts";
import { createLifetimes } from "../../../src/cache/lifetimes/learned-lifetimes.ts";
import { createLoad, type LoadedEntry } from "../../../src/cache/load.ts";
import type { Store } from "../../../src/cache/store/port.ts";
import { Tiers } from "../../../src/cache/store/tiered.ts";
import { createLeadOrFollow } from "../../../src/singleflight/replica-leader.ts";
import { createFlights } from "../../../src/singleflight/callers-flights.ts";
import { Problem } from "../../../src/errors.ts";
import { refusalOf } from "../../../src/ratelimit/refusals.ts";
import type { Cause } from "../../../src/telemetry/events.ts";
import type { Entry } from "../../../src/cache/entry.ts";
import type { Fetched } from "../../../src/upstream/verdict.ts";
import { entryWith, fetchedWith } from "../../support/entries.ts";
import { storeIn } from "../../support/store.ts";
import { SILENT } from "../../support/silent-observer.ts";
import { createFakeClock, settled } from "../../support/fake-clock.ts";
import { questionWith, requestWith } from "../../support/question.ts";
import { rulesWith } from "../../support/rules.ts";

const FOUND = fetchedWith();

const QUESTION = questionWith(requestWith(0));

/**
 * @param shared the store that other replicas use, too; their messages do not arrive
 * @param elsewhere the failure of another replica that leads the flight
 */
function setup(upstream: (nth: number) => Promise<Fetched>, shared?: Store, elsewhere?: Problem) {
  const clock = createFakeClock();
  const tiers = new Tiers(createMemoryStore(80_000, clock), shared, clock);
  const failures = new Failures();
  const flights = createFlights<LoadedEntry | undefined>(clock);
  let calls = 0;
  const load = createLoad({
    tiers,
    joinFlight: flights.join,
    leadOrFollow: createLeadOrFollow<LoadedEntry>(
      elsewhere && { claim: async () => ({ kind: "follower", ended: Promise.resolve(elsewhere) }) },
    ),
    fetch: () => upstream(++calls),
    failures,
    rules: () => rulesWith(),
    lifetimes: createLifetimes(() => "fixed"),
    checks: { called: () => undefined },
    replicas: 1,
    clock,
    observer: SILENT,
  });
  return {
    clock,
    tiers,
    calls: () => calls,
    flightsUnderWay: flights.size,
    /** Whether it failed so recently that it is not to be tried again yet. */
    isLeftAlone: () => failures.recent(QUESTION.key, clock.now()) !== undefined,
    load: ({ cached, cause = "miss", app = "web" }: { cached?: Entry; cause?: Cause; app?: string } = {}) =>
      load({
        question: QUESTION,
        cached,
        cause,
        waiter: { ...requestWith(clock.now()), gone: new AbortController().signal, app },
      }),
  };
}

it("an answer that another replica has stored is used also before its message arrives", async () => {
  const shared = createMemoryStore(80_000, createFakeClock());
  const { clock, tiers, load, calls } = setup(async () => FOUND, storeIn(shared));
  const cached = entryWith("older", clock.now() - 1);
  await tiers.keep(QUESTION.key, cached);
  shared.put(QUESTION.key, entryWith("newer", clock.now()));
  const loaded = await load({ cached, cause: "refresh" });
  expect([loaded.tier, loaded.entry.storedAt, calls()]).toEqual(["redis", clock.now(), 0]);
  expect((await tiers.lookup(QUESTION.key))?.entry.storedAt).toBe(clock.now());
});

it("a fetched answer is given to its callers before it is in the store, but after a purge no caller gets it", async () => {
  const { promise: written, resolve: write } = Promise.withResolvers<true>();
  const shared = storeIn(createMemoryStore(80_000, createFakeClock()), { set: () => written });
  const { clock, tiers, load, flightsUnderWay } = setup(async () => FOUND, shared);
  const value = await load();
  expect([value.tier, value.stored, flightsUnderWay()]).toEqual([undefined, true, 1]);
  await tiers.purge({ kind: "all" }, false);
  // The time of day goes on also while promises keep this process from anything else.
  vi.spyOn(clock, "now").mockImplementation(() => Date.now());
  const later = load();
  await settled();
  write(true);
  expect((await later).entry.purgeEpoch).toBe(9);
  await settled();
  expect(flightsUnderWay()).toBe(0);
});

it.each([
  ["was refused here", new Problem("temporary-reduced-capacity")],
  [
    "was refused because the upstream is left alone",
    new Problem("upstream-unavailable", { refusedHere: true }),
  ],
  ["met a mistake of the gateway", new TypeError("a mistake")],
])("a flight that fails because it %s does not count as a failure of the upstream", async (_name, error) => {
  const { load, isLeftAlone } = setup(() => Promise.reject(error));
  await expect(load()).rejects.toThrow();
  expect(isLeftAlone()).toBe(false);
});

it("a failure counts at once in the replica that called the upstream, in the others when its message arrives", async () => {
  const both = [setup(() => Promise.reject(failure)), setup(async () => FOUND, undefined, failure)];
  for (const { load } of both) await expect(load()).rejects.toBe(failure);
  expect(both.map(({ isLeftAlone }) => isLeftAlone())).toEqual([true, false]);
});

const refusal = refusalOf({ forMs: 7_000, why: "budget" }, "batch", 0);
const ofApp = refusalOf({ forMs: 7_000, why: "share" }, "batch", 0);
const failure = new Problem("upstream-error");

it.each<[string, Cause, Error, string[]]>([
  ["a caller without room, which counts for all", "miss", refusal, [refusal.code, refusal.code]],
  ["an app without budget", "miss", ofApp, [ofApp.code, "loaded"]],
  ["a refresh that failed, which counts for all", "refresh", failure, [failure.code, failure.code]],
])(
  "a flight that was refused because of the request that started it, %s: its other waiters try again unless the reason applies to all",
  async (_name, cause, error, ends) => {
    const door = Promise.withResolvers<Fetched>();
    const { load, calls } = setup((nth) => (nth === 1 ? door.promise : Promise.resolve(FOUND)));
    const both = [load({ cause, app: "batch" }), load()].map((one) =>
      one.then(() => "loaded").catch(({ code }: Problem) => code),
    );
    await settled();
    door.reject(error);
    expect(await Promise.all(both)).toEqual(ends);
    expect(calls()).toBe(ends.includes("loaded") ? 2 : 1);
  },
);

import { describe, expect, it } from "vitest";

import type { Allowance, Grant, Wish } from "../../../src/ratelimit/allowance.ts";
import type { Terms } from "../../../src/ratelimit/arbiter.ts";
import { instantOf, type LedgerLine, type OwnLedger } from "../../../src/usage/ledger.ts";
import { createLocalAllowance } from "../../../src/ratelimit/local-allowance.ts";
import { createMemoryLedger } from "../../../src/usage/memory-ledger.ts";
import type { SendEnd } from "../../../src/types.ts";
import { mostWithin } from "../../support/arrivals.ts";
import { createDice } from "../../support/dice.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { LEASE_MS, MINUTE, termsOf } from "./arbiter-support.ts";

const DAY = 86_400_000;
/** What is read from the ledger counts so much longer: no two processes' clocks are cut to the same milliseconds. */
const ROUNDING_MS = 1;
const OK: SendEnd = { status: 200, arrivedAfterMs: 0, durationMs: 0 };
const ONE_A_MINUTE = termsOf({ a: 1 }, { windows: [{ name: "1m", limit: 1, windowMs: MINUTE }] });

const wishOf = (app = "a"): Wish => ({
  app,
  priority: "interactive",
  resource: "listings",
  cause: "miss",
  query: "hash",
});

interface Process {
  readonly allowance: Allowance;
  readonly forMs: (app?: string) => number;
  /** A place, where there is one. */
  readonly take: (app?: string) => Promise<Grant>;
}

/** A machine on which processes follow one another, with a ledger that outlives them. */
function createMachine(terms: Terms = ONE_A_MINUTE): {
  readonly clock: FakeClock;
  readonly ledger: OwnLedger;
  readonly start: (origin?: "api" | "images") => Process;
} {
  const clock = createFakeClock();
  const ledger = createMemoryLedger({ retentionMs: 7 * DAY, maxRecords: 10_000, now: clock.now });
  let started = 0;
  return {
    clock,
    ledger,
    start(origin = "api") {
      const replica = `process ${++started}`;
      const allowance = createLocalAllowance({ origin, terms, ledger, clock, replica });
      return {
        allowance,
        forMs: (app) => allowance.expect(wishOf(app), []).forMs,
        async take(app) {
          const taken = await allowance.take([wishOf(app)]);
          if (taken.kind === "wait") expect.fail(`there is no place for ${taken.forMs} ms`);
          return taken.grant;
        },
      };
    },
  };
}

async function linesOf(ledger: OwnLedger): Promise<LedgerLine[]> {
  const lines: LedgerLine[] = [];
  for await (const piece of ledger.read(0, Number.MAX_SAFE_INTEGER)) lines.push(...piece);
  return lines;
}

describe("a process that keeps its budget by itself", () => {
  it("enters a send before it goes, and adds how it ended", async () => {
    const { clock, ledger, start } = createMachine();
    const { allowance, take } = start();
    const sentAt = clock.now();
    const grant = await take();
    const sent = { app: "a", resource: "listings", cause: "miss", query: "hash" };
    const entry = { ...sent, origin: "api", at: sentAt, limits: "1/60000" };
    expect(await linesOf(ledger)).toEqual([{ ...entry, id: grant.id, completion: undefined }]);
    await clock.advance(2_000);
    allowance.settle(grant, { status: 404, arrivedAfterMs: 300, durationMs: 2_000 });
    const completion = { status: 404, durationMs: 2_000, arrivedAt: sentAt + 300 };
    expect(await linesOf(ledger)).toEqual([{ ...entry, id: grant.id, completion }]);
  });

  it("enters what goes whatever the limits say", async () => {
    const { ledger, start } = createMachine();
    const { allowance, take } = start();
    await take();
    await allowance.takeAnyway(wishOf());
    expect(await linesOf(ledger)).toHaveLength(2);
    expect(allowance.overview().windows[0]).toMatchObject({ spent: 2, remaining: 0 });
  });

  it("says for how long there is no place, and that there is one sooner when one is given back", async () => {
    const { start } = createMachine();
    const { allowance, take } = start();
    let changes = 0;
    allowance.attach({ queued: () => [], changed: () => changes++ });
    const grant = await take();
    expect(await allowance.take([wishOf()])).toEqual({ kind: "wait", forMs: MINUTE + 1 });
    allowance.giveBack(grant);
    expect(changes).toBe(1);
    allowance.settle(await take(), OK);
    expect(changes).toBe(2);
  });

  it("shows how its windows stand, by app, and its circuits", async () => {
    const windows = [{ name: "1m", limit: 10, windowMs: MINUTE }];
    const { start } = createMachine(termsOf({ a: 1, b: 1 }, { windows }));
    const { allowance, take } = start();
    for (const app of ["a", "a", "b"]) allowance.settle(await take(app), OK);
    const slowDown = { cause: "unavailable", forMs: 7_000 } as const;
    allowance.settle(await take("b"), { ...OK, status: 503, slowDown });
    expect(allowance.overview()).toEqual({
      mode: "alone",
      windows: [
        {
          name: "1m",
          limit: 10,
          windowMs: MINUTE,
          spent: 4,
          remaining: 6,
          heldBack: 0,
          byApp: { a: 2, b: 2 },
        },
      ],
      circuits: [{ scope: "listings", state: "open", cause: "unavailable", forMs: 7_000 }],
    });
  });

  it("shows an app what is left of its share, and when some of it is free again", async () => {
    const windows = [{ name: "1m", limit: 10, windowMs: MINUTE }];
    const { clock, start } = createMachine(termsOf({ a: 1, b: 1 }, { windows }));
    const { allowance, take } = start();
    const share = { name: "1m", limit: 5, windowSeconds: 60 };
    expect(allowance.shareOf("a")).toEqual([{ ...share, remaining: 5, resetSeconds: 60 }]);
    allowance.settle(await take("a"), OK);
    await clock.advance(20_000);
    allowance.settle(await take("a"), OK);
    expect(allowance.shareOf("a")).toEqual([{ ...share, remaining: 3, resetSeconds: 41 }]);
    // What others have borrowed is not left, whatever its share says.
    for (let sent = 0; sent < 7; sent++) await allowance.takeAnyway(wishOf("b"));
    expect(allowance.shareOf("a")).toEqual([{ ...share, remaining: 1, resetSeconds: 41 }]);
  });

  it("shows an app that has a limit for a day what is left of that, beside its share", async () => {
    const windows = [{ name: "1m", limit: 10, windowMs: MINUTE }];
    const { clock, start } = createMachine(termsOf({ a: { weight: 1, perDay: 3 }, b: 1 }, { windows }));
    const { allowance, take } = start();
    const perDay = (): unknown => allowance.shareOf("a")[1];
    const day = { name: "per-day", limit: 3, windowSeconds: 86_400 };
    expect(allowance.shareOf("b")).toHaveLength(1);
    expect(perDay()).toEqual({ ...day, remaining: 3, resetSeconds: 86_400 });
    allowance.settle(await take("a"), OK);
    await clock.advance(MINUTE + 1);
    allowance.settle(await take("a"), OK);
    allowance.settle(await take("b"), OK);
    expect(allowance.shareOf("a")[0]).toMatchObject({ remaining: 4 });
    expect(perDay()).toEqual({ ...day, remaining: 1, resetSeconds: 86_340 });
    // More than its limit, where that was lowered or only watched, is not less than nothing.
    for (let sent = 0; sent < 3; sent++) await allowance.takeAnyway(wishOf("a"));
    expect(perDay()).toMatchObject({ remaining: 0 });
    await clock.advance(86_400_000 + 10_000);
    expect(perDay()).toEqual({ ...day, remaining: 3, resetSeconds: 86_400 });
  });
});

describe("a process that is started again", () => {
  it("counts what was sent, from when it had arrived", async () => {
    const { clock, start } = createMachine();
    const before = start();
    const grant = await before.take();
    await clock.advance(2_000);
    before.allowance.settle(grant, { status: 200, arrivedAfterMs: 500, durationMs: 2_000 });
    await clock.advance(8_000);
    const { forMs, allowance } = start();
    expect(forMs()).toBe(MINUTE + 1 + 500 - 10_000 + ROUNDING_MS);
    expect(allowance.overview().windows[0]).toMatchObject({ spent: 1, byApp: { a: 1 } });
    await clock.advance(MINUTE + 500 - 10_000 + ROUNDING_MS);
    expect(forMs()).toBe(1);
    await clock.advance(1);
    expect(forMs()).toBe(0);
  });

  it("counts a send that was never completed from the latest time at which it can have arrived", async () => {
    const { clock, start } = createMachine();
    await start().take();
    await clock.advance(MINUTE + 1_000);
    const { forMs } = start();
    expect(forMs()).toBe(LEASE_MS + 1 - 1_000 + ROUNDING_MS);
  });

  it("counts a send that may still be on its way as arriving now, for as long as it may be", async () => {
    const { clock, start } = createMachine();
    await start().take();
    await clock.advance(LEASE_MS - 1_000);
    const { forMs } = start();
    expect(forMs()).toBe(MINUTE + 1);
    await clock.advance(1_000);
    expect(forMs()).toBe(MINUTE + 1);
    await clock.advance(1_000);
    expect(forMs()).toBe(MINUTE + 1 - 1_000 + ROUNDING_MS);
  });

  it("does not count what never went", async () => {
    const { start } = createMachine();
    const before = start();
    before.allowance.giveBack(await before.take());
    expect(start().forMs()).toBe(0);
  });

  it("does not count what was sent to another origin", async () => {
    const { start } = createMachine();
    await start("images").take();
    expect(start("api").forMs()).toBe(0);
    expect(start("images").forMs()).toBeGreaterThan(0);
  });

  it("counts what an app has sent in 24 hours, though the windows are short", async () => {
    const apps = { a: { weight: 1, perDay: 2 }, b: 1 };
    const windows = [{ name: "1m", limit: 10, windowMs: MINUTE }];
    const { clock, start } = createMachine(termsOf(apps, { windows }));
    const before = start();
    for (let sent = 0; sent < 2; sent++) before.allowance.settle(await before.take("a"), OK);
    await clock.advance(DAY / 2);
    const { forMs } = start();
    expect([forMs("a"), forMs("b")]).toEqual([DAY / 2 + 1 + ROUNDING_MS, 0]);
  });

  it("gives its sends ids unlike those before", async () => {
    const { clock, ledger, start } = createMachine();
    await start().take();
    await clock.advance(2 * MINUTE);
    await start().take();
    expect(await linesOf(ledger)).toHaveLength(2);
  });
});

describe("a time of day that is set", () => {
  it("changes nothing for a process that goes on", async () => {
    const { clock, start } = createMachine();
    const { allowance, take, forMs } = start();
    allowance.settle(await take(), OK);
    clock.set(clock.now() + DAY);
    expect(forMs()).toBe(MINUTE + 1);
    clock.set(clock.now() - 2 * DAY);
    expect(forMs()).toBe(MINUTE + 1);
  });

  it("does not hold everything back where it was ahead: what is in the future counts as sent now", async () => {
    const { clock, start } = createMachine();
    clock.set(clock.now() + DAY);
    const ahead = start();
    ahead.allowance.settle(await ahead.take(), OK);
    clock.set(clock.now() - DAY);
    const { forMs } = start();
    expect(forMs()).toBe(MINUTE + 1);
    await clock.advance(MINUTE + 1);
    expect(forMs()).toBe(0);
  });

  it("does not hold everything back whatever the ledger says", async () => {
    const { clock, ledger } = createMachine();
    const at = clock.now() + DAY;
    const line: LedgerLine = { id: "x", origin: "api", at, ...wishOf(), limits: "", completion: undefined };
    const news = { isFirst: true, entered: [line], ended: [] };
    const ahead: OwnLedger = { ...ledger, follow: () => ({ news: () => news, decide: () => false }) };
    const options = { origin: "api", terms: ONE_A_MINUTE, clock, replica: "here" } as const;
    const allowance = createLocalAllowance({ ...options, ledger: ahead });
    expect(allowance.expect(wishOf(), []).forMs).toBe(MINUTE + 1);
  });
});

describe("a process that stands still at any moment", () => {
  it("never shows more in its ledger than was allowed in any window", async () => {
    const dice = createDice(4);
    let at = 1_800_000_000_000;
    // Between any two looks at a clock it may have stood still.
    const look = (): number => (at += dice.chance(0.2) ? dice.between(1, 400) : 0);
    const clock = { ...createFakeClock(), now: look, monotonic: () => look() - 1_700_000_000_000 };
    const ledger = createMemoryLedger({ retentionMs: 7 * DAY, maxRecords: 10_000, now: clock.now });
    const windows = [{ name: "1s", limit: 3, windowMs: 1_000 }];
    const options = { origin: "api", ledger, clock, replica: "here" } as const;
    const allowance = createLocalAllowance({ ...options, terms: termsOf({ a: 1 }, { windows }) });
    for (let sends = 0; sends < 300;) {
      const taken = await allowance.take([wishOf()]);
      if (taken.kind === "wait") at += taken.forMs;
      else {
        allowance.settle(taken.grant, OK);
        sends++;
      }
    }
    const instants: number[] = [];
    for await (const lines of ledger.read(0, at + 1)) instants.push(...lines.map(instantOf));
    expect(instants).toHaveLength(300);
    expect(mostWithin(instants, 1_000)).toBe(3);
  });
});

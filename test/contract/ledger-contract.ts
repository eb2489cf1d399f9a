import { afterEach, beforeEach, describe, expect, it } from "vitest";

import {
  LONGEST_ARRIVAL_MS,
  type LedgerBounds,
  type LedgerCompletion,
  type LedgerEntry,
  type LedgerLine,
  type LedgerReader,
  type OwnLedger,
} from "../../src/usage/ledger.ts";
import { createRandom } from "../support/random.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { ledgerEntry, linesOf, piecesOf } from "../support/ledger.ts";

/** A ledger that is empty, how lines come into it, and how to be rid of it. */
interface LedgerUnderTest {
  readonly reader: LedgerReader;
  readonly enter: (entry: LedgerEntry) => Promise<void> | void;
  readonly complete: (id: string, completion: LedgerCompletion) => Promise<void> | void;
  readonly close: () => Promise<void>;
}

export type CreateLedger<T> = (bounds: LedgerBounds) => Promise<T>;

const DAY_MS = 86_400_000;
const RETENTION_MS = 35 * DAY_MS;
const AMPLE = 1_000_000;
/** A ledger tidies now and then, not at each line: it may hold so many more than its bounds say meanwhile. */
const MOST_UNTIDY = 1_024;

function uncompleted(entry: LedgerEntry): LedgerLine {
  return { ...entry, completion: undefined };
}

/** The contract of every ledger. */
function ledgerContract(name: string, create: CreateLedger<LedgerUnderTest>): void {
  describe(`${name} keeps to the contract of ledgers:`, () => {
    let clock: FakeClock;
    let start: number;
    let ledger: LedgerUnderTest;

    async function open(maxRecords = AMPLE): Promise<void> {
      await ledger.close();
      ledger = await create({ retentionMs: RETENTION_MS, maxRecords, now: clock.now });
    }

    beforeEach(async () => {
      // Stores with a clock of their own, such as Redis, count from now: the tests' time begins there.
      clock = createFakeClock(Date.now());
      start = clock.now();
      ledger = await create({ retentionMs: RETENTION_MS, maxRecords: AMPLE, now: clock.now });
    });
    afterEach(() => ledger.close());

    it("a new ledger is empty and complete since its start", async () => {
      expect(await piecesOf(ledger.reader)).toEqual([]);
      expect(await ledger.reader.completeSince()).toBe(start);
    });

    it("a line is returned with every field before it is completed", async () => {
      const entries = [
        ledgerEntry({ id: "a", at: start }),
        ledgerEntry({ id: "b", at: start + 1, origin: "images", resource: "images", cause: "retry" }),
        ledgerEntry({ id: "c", at: start + 1, limits: "60/60000,10000/86400000" }),
        ledgerEntry({ id: "räk smörgås 🦐 \"'", at: start + 2, app: "other", resource: "sold", query: "" }),
      ];
      for (const entry of entries) await ledger.enter(entry);
      expect(await linesOf(ledger.reader)).toEqual(entries.map(uncompleted));
    });

    it.each<LedgerCompletion["status"]>([200, 404, 429, 503, "reset", "header-timeout", "unsent"])(
      "what ended with %s comes back with that, at once and in its place",
      async (status) => {
        const entries = ["a", "b", "c"].map((id, index) => ledgerEntry({ id, at: start + index }));
        for (const entry of entries) await ledger.enter(entry);
        const completion = { status, durationMs: 1_234, arrivedAt: start + 56 };
        await ledger.complete("b", completion);
        const [first, second, third] = entries.map(uncompleted);
        expect(await linesOf(ledger.reader)).toEqual([first, { ...second, completion }, third]);
      },
    );

    it("a line that is entered twice is one line", async () => {
      const entry = ledgerEntry({ at: start });
      const completion = { status: 200, durationMs: 5, arrivedAt: start + 5 };
      await ledger.enter(entry);
      await ledger.complete(entry.id, completion);
      await ledger.enter(entry);
      await ledger.complete(entry.id, completion);
      expect(await linesOf(ledger.reader)).toEqual([{ ...entry, completion }]);
    });

    it("completing an unknown line does nothing", async () => {
      await ledger.complete("nobody", { status: 200, durationMs: 1, arrivedAt: start });
      expect(await linesOf(ledger.reader)).toEqual([]);
    });

    it("a period includes its start and excludes its end", async () => {
      for (let at = start; at < start + 10; at++) await ledger.enter(ledgerEntry({ id: String(at), at }));
      const read = async (from: number, to: number): Promise<number[]> =>
        (await linesOf(ledger.reader, start + from, start + to)).map(({ at }) => at - start);
      expect(await read(3, 6)).toEqual([3, 4, 5]);
      expect(await read(9, 10)).toEqual([9]);
      expect(await read(-5, 1)).toEqual([0]);
      expect(await read(4, 4)).toEqual([]);
      expect(await read(10, 99)).toEqual([]);
    });

    it("lines are sorted by time, then by entry, also after a clock was set back", async () => {
      const instants = [5, 6, 2, 6, 9, 2, 0];
      clock.set(start + 9);
      for (const [index, at] of instants.entries())
        await ledger.enter(ledgerEntry({ id: `${at}, entered as ${index}`, at: start + at }));
      expect((await linesOf(ledger.reader)).map(({ id }) => id)).toEqual([
        "0, entered as 6",
        "2, entered as 2",
        "2, entered as 5",
        "5, entered as 0",
        "6, entered as 1",
        "6, entered as 3",
        "9, entered as 4",
      ]);
    });

    it("a long ledger is read in pieces, each line once", async () => {
      const random = createRandom(1);
      const entries = Array.from({ length: 5_000 }, (_, index) =>
        // Runs of one instant that are longer than any piece.
        ledgerEntry({
          id: String(index),
          at: start - 10 + Math.floor(index / 2_100),
          app: random.pick(["a", "b"]),
        }),
      );
      for (const entry of entries) await ledger.enter(entry);
      const pieces = await piecesOf(ledger.reader);
      expect(pieces.length).toBeGreaterThan(2);
      expect(Math.min(...pieces.map((piece) => piece.length))).toBeGreaterThan(0);
      expect(pieces.flat()).toEqual(entries.map(uncompleted));
    });

    it("lines older than the retention are dropped, and the ledger says since when it is complete", async () => {
      for (let day = 0; day < 70; day++) {
        clock.set(start + day * DAY_MS);
        for (let each = 0; each < 50; each++)
          await ledger.enter(ledgerEntry({ id: `${day}/${each}`, at: clock.now() + each }));
      }
      const since = await ledger.reader.completeSince();
      expect(since).toBeGreaterThan(start + 20 * DAY_MS);
      const oldest = clock.now() - RETENTION_MS;
      expect(since).toBeLessThanOrEqual(oldest + DAY_MS);
      expect((await linesOf(ledger.reader, since)).length).toBeGreaterThanOrEqual(50 * 34);
      // Nothing that is young enough is gone.
      const kept = await linesOf(ledger.reader, oldest + 1);
      expect(kept).toHaveLength(50 * 35 + 50 - 1);
    });

    it.each([1, 2])("it drops the oldest lines beyond its maximum (seed %i)", async (seed) => {
      const [most, random] = [500, createRandom(seed)];
      await open(most);
      const entered: LedgerEntry[] = [];
      for (let index = 0; index < 4_000; index++) {
        clock.set(clock.now() + random.between(0, 3));
        // Several replicas, or a clock that is set now and then: not quite in order.
        const entry = ledgerEntry({ id: String(index), at: clock.now() - random.between(0, 20) });
        entered.push(entry);
        await ledger.enter(entry);
      }
      const held = await linesOf(ledger.reader);
      expect(held.length).toBeGreaterThanOrEqual(most);
      expect(held.length).toBeLessThanOrEqual(most + MOST_UNTIDY);
      // Since then nothing is missing, and that is not said too late.
      const since = await ledger.reader.completeSince();
      expect(since).toBeGreaterThan(start);
      const expected = entered.filter(({ at }) => at >= since).sort((one, other) => one.at - other.at);
      expect(await linesOf(ledger.reader, since)).toEqual(expected.map(uncompleted));
      expect(expected.length).toBeGreaterThan(most * 0.9);
    });
  });
}

/** A ledger of one process, and how to be rid of it. */
export interface StoredLedgerUnderTest {
  readonly ledger: OwnLedger;
  readonly close: () => Promise<void>;
}

/** What a ledger keeps to from which a process' windows are filled. */
export function ownLedgerContract(name: string, create: CreateLedger<StoredLedgerUnderTest>): void {
  ledgerContract(name, async (bounds) => {
    const { ledger, close } = await create(bounds);
    return { reader: ledger, enter: ledger.enter, complete: ledger.complete, close };
  });

  describe(`${name} keeps to the contract of a process' own ledger:`, () => {
    const clock = createFakeClock();
    const start = clock.now();
    let ledger: OwnLedger;
    let close: () => Promise<void>;

    beforeEach(async () => {
      clock.set(start);
      ({ ledger, close } = await create({ retentionMs: RETENTION_MS, maxRecords: AMPLE, now: clock.now }));
    });
    afterEach(() => close());

    /** Enters a send that went at one instant and arrived at another, if at all. */
    function enter(id: string, at: number, arrivedAt?: number, more: Partial<LedgerEntry> = {}): void {
      ledger.enter(ledgerEntry({ id, at, ...more }));
      if (arrivedAt !== undefined) ledger.complete(id, { status: 200, durationMs: 1, arrivedAt });
    }
    const recent = (since: number): string[] => ledger.recent("api", since).map(({ id }) => id);

    it("recent calls are listed by origin and by arrival time, or by send time if that is unknown", () => {
      enter("slow", start - 500, start - 100);
      enter("lost", start - 400);
      enter("picture", start - 300, start - 300, { origin: "images", resource: "images" });
      enter("quick", start - 300, start - 300);
      expect(recent(0)).toEqual(["lost", "quick", "slow"]);
      expect(ledger.recent("images", 0).map(({ id }) => id)).toEqual(["picture"]);
      expect(ledger.recent("api", start - 100)).toEqual([
        {
          ...ledgerEntry({ id: "slow", at: start - 500 }),
          completion: { status: 200, durationMs: 1, arrivedAt: start - 100 },
        },
      ]);
    });

    it("recent calls include a slow call whose window begins at this instant", () => {
      enter("slowest", start - LONGEST_ARRIVAL_MS, start);
      enter("last", start - 1);
      expect(recent(start - 1)).toEqual(["last", "slowest"]);
      expect(recent(start)).toEqual(["slowest"]);
      expect(recent(start + 1)).toEqual([]);
    });

    it("recent calls exclude calls that were never sent", () => {
      enter("went", start);
      enter("stayed", start);
      ledger.complete("stayed", { status: "unsent", durationMs: 0, arrivedAt: start });
      expect(recent(0)).toEqual(["went"]);
    });

    it("a line from a clock that was ahead counts as sent now", () => {
      clock.set(start + 99 * DAY_MS);
      enter("ahead", clock.now(), clock.now() + 5);
      enter("lost ahead", clock.now());
      clock.set(start);
      enter("behind", start - 10);
      expect(ledger.recent("api", 0)).toMatchObject([
        { id: "behind", at: start - 10 },
        { id: expect.stringContaining("ahead"), at: start },
        { id: expect.stringContaining("ahead"), at: start },
      ]);
      for (const { completion } of ledger.recent("api", start - 5))
        expect(completion?.arrivedAt ?? start).toBe(start);
    });

    it("it is complete from now on at the latest, also if the clock was ahead at the start", async () => {
      clock.set(start - DAY_MS);
      expect(await ledger.completeSince()).toBe(start - DAY_MS);
    });
  });
}

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { type Following, type LedgerBounds, NO_NEWS, type StoredLedger } from "../../src/usage/ledger.ts";
import { createSqliteLedger } from "../../src/usage/sqlite-ledger.ts";
import { StoreUnavailable } from "../../src/store-unavailable.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { ledgerEntry, ledgerLine, linesOf } from "../support/ledger.ts";
import { openSqliteBackend, temporaryDirectory } from "../support/sqlite.ts";
import { ownLedgerContract } from "./ledger-contract.ts";

ownLedgerContract("SQLite", async (bounds) => {
  const dataDir = mkdtempSync(join(tmpdir(), "property-gateway-"));
  const { database, close } = openSqliteBackend(dataDir);
  return {
    ledger: createSqliteLedger(database, bounds),
    close: async () => {
      await close();
      rmSync(dataDir, { recursive: true });
    },
  };
});

const clock = createFakeClock();
const START = clock.now();
const DAY_MS = 86_400_000;

/** One life of a process on the file of a directory. */
async function during<T>(
  directory: string,
  work: (ledger: StoredLedger, countLines: () => unknown) => T,
  bounds: Partial<LedgerBounds> = {},
): Promise<Awaited<T>> {
  const { database, close } = openSqliteBackend(directory);
  const ledger = createSqliteLedger(database, {
    retentionMs: DAY_MS,
    maxRecords: 10_000,
    now: clock.now,
    ...bounds,
  });
  try {
    return await work(
      ledger,
      () => database.prepare("SELECT count(*) AS lines FROM ledger").get()?.["lines"],
    );
  } finally {
    await close();
  }
}

describe("the ledger on disk", () => {
  it("outlives the process, with what is completed and what is not, and since when it is complete", async () => {
    const directory = temporaryDirectory();
    clock.set(START);
    const completed = ledgerLine({ id: "completed", at: START });
    await during(directory, (ledger) => {
      ledger.enter(ledgerEntry({ id: "completed", at: START }));
      ledger.enter(ledgerEntry({ id: "under way", at: START + 1 }));
      if (completed.completion) ledger.complete("completed", completed.completion);
    });
    clock.set(START + 5_000);
    await during(directory, async (ledger) => {
      ledger.complete("under way", { status: "reset", durationMs: 4, arrivedAt: START + 5 });
      expect(await ledger.completeSince()).toBe(START);
      expect(await linesOf(ledger)).toEqual([
        completed,
        ledgerLine({
          id: "under way",
          at: START + 1,
          completion: { status: "reset", durationMs: 4, arrivedAt: START + 5 },
        }),
      ]);
    });
  });

  it("remembers over a restart that lines were dropped", async () => {
    const directory = temporaryDirectory();
    const full = { maxRecords: 10 };
    clock.set(START);
    await during(
      directory,
      (ledger) => {
        for (let each = 0; each < 300; each++) {
          clock.set(START + each);
          ledger.enter(ledgerEntry({ id: String(each), at: START + each }));
        }
      },
      full,
    );
    clock.set(START + 10_000);
    await during(directory, async (ledger) => {
      // The tidying after the 257th line left ten.
      expect(await ledger.completeSince()).toBe(START + 247);
      expect((await linesOf(ledger))[0]).toMatchObject({ at: START + 247 });
    });
  });

  it("of processes that live briefly does not grow", async () => {
    const directory = temporaryDirectory();
    for (let life = 0; life < 40; life++) {
      clock.set(START + life * 10_000);
      const bounds = { retentionMs: 60_000, maxRecords: 100 };
      await during(
        directory,
        (ledger, countLines) => {
          for (let each = 0; each < 10; each++)
            ledger.enter(ledgerEntry({ id: `${life}/${each}`, at: clock.now() }));
          expect(countLines()).toBeLessThanOrEqual(70);
        },
        bounds,
      );
    }
  });

  it("puts right what a clock that was ahead has entered: it leaves in due time", async () => {
    const directory = temporaryDirectory();
    clock.set(START + 365 * DAY_MS);
    await during(directory, (ledger) => ledger.enter(ledgerEntry({ id: "ahead", at: clock.now() })));
    clock.set(START);
    await during(directory, (ledger) => ledger.enter(ledgerEntry({ id: "in time", at: START })));
    clock.set(START + 1_000);
    await during(directory, async (ledger) => {
      expect((await linesOf(ledger)).map(({ id, at }) => [id, at])).toEqual([
        ["ahead", START],
        ["in time", START],
      ]);
      expect(ledger.recent("api", START + 1)).toEqual([]);
      expect(await ledger.completeSince()).toBe(START);
    });
    clock.set(START + 2 * DAY_MS);
    await during(directory, async (ledger) => {
      ledger.enter(ledgerEntry({ id: "later", at: clock.now() }));
      expect((await linesOf(ledger)).map(({ id }) => id)).toEqual(["later"]);
    });
  });

  it("keeps whole milliseconds, whatever it is given", async () => {
    clock.set(START);
    await during(temporaryDirectory(), async (ledger) => {
      ledger.enter(ledgerEntry({ at: START + 0.25 }));
      ledger.complete("send-1", { status: 200, durationMs: 12.5001, arrivedAt: START + 3.75 });
      expect(await linesOf(ledger)).toEqual([
        ledgerLine({ at: START, completion: { status: 200, durationMs: 13, arrivedAt: START + 4 } }),
      ]);
    });
  });

  it("that cannot be read says so in the way of all stores", async () => {
    const ledger = await during(temporaryDirectory(), (ledger) => ledger);
    await expect(linesOf(ledger)).rejects.toThrow(StoreUnavailable);
    await expect(ledger.completeSince()).rejects.toThrow(StoreUnavailable);
    expect(() => ledger.enter(ledgerEntry())).toThrow();
    expect(() => ledger.recent("api", 0)).toThrow();
  });

  it("is read while it is written, without a line lost or read twice", async () => {
    clock.set(START + 1);
    await during(temporaryDirectory(), async (ledger) => {
      for (let each = 0; each < 3_000; each++) ledger.enter(ledgerEntry({ id: `old ${each}`, at: START }));
      const ids: string[] = [];
      for await (const piece of ledger.read(0, START + 1)) {
        ids.push(...piece.map(({ id }) => id));
        for (let each = 0; each < 300; each++)
          ledger.enter(ledgerEntry({ id: `new ${ids.length} ${each}`, at: START + 1 }));
      }
      expect(ids).toEqual(Array.from({ length: 3_000 }, (_, each) => `old ${each}`));
    });
  });
});

describe("the ledger on disk, written by several", () => {
  const bounds = { retentionMs: DAY_MS, maxRecords: 10, now: clock.now };
  const ended = { status: 200, durationMs: 5, arrivedAt: START + 5 };

  /** One who writes, and one who follows, each by a connection of its own. */
  function two(): { readonly writer: StoredLedger; readonly following: Following } {
    clock.set(START);
    const directory = temporaryDirectory();
    const [one, other] = [openSqliteBackend(directory), openSqliteBackend(directory)];
    onTestFinished(async () => void (await Promise.all([one.close(), other.close()])));
    const following = createSqliteLedger(other.database, bounds).follow({
      origin: "api",
      own: "me.",
      since: 0,
    });
    return { writer: createSqliteLedger(one.database, bounds), following };
  }

  const heard = ({ news }: Following): unknown => {
    const { isFirst, entered, ended } = news() ?? expect.unreachable();
    return [
      isFirst,
      entered.map(({ id }) => id),
      ended.map(({ id, completion }) => `${id}: ${completion.status}`),
    ];
  };

  it("tells what is new once, and once how it ended", () => {
    const { writer, following } = two();
    writer.enter(ledgerEntry({ id: "a", at: START }));
    expect(heard(following)).toEqual([true, ["a"], []]);
    writer.enter(ledgerEntry({ id: "b", at: START }));
    writer.enter(ledgerEntry({ id: "picture", at: START, origin: "images", resource: "images" }));
    expect(heard(following)).toEqual([false, ["b"], []]);
    expect(following.news()).toEqual(NO_NEWS);
    writer.complete("b", { ...ended, status: "unsent" });
    writer.enter(ledgerEntry({ id: "c", at: START }));
    writer.complete("c", ended);
    expect(following.news()).toEqual({
      isFirst: false,
      entered: [ledgerLine({ id: "c", at: START, completion: ended })],
      ended: [ledgerLine({ id: "b", at: START, completion: { ...ended, status: "unsent" } })],
    });
    writer.complete("a", ended);
    writer.complete("picture", ended);
    expect(heard(following)).toEqual([false, [], ["a: 200"]]);
    expect(heard(following)).toEqual([false, [], []]);
  });

  it("tells it to who decides, who then knows its own line too", async () => {
    const { writer, following } = two();
    expect(heard(following)).toEqual([true, [], []]);
    writer.enter(ledgerEntry({ id: "a", at: START }));
    const isDecided = following.decide((news) => {
      expect(news?.entered.map(({ id }) => id)).toEqual(["a"]);
      return ledgerEntry({ id: "me.1", at: START });
    });
    writer.enter(ledgerEntry({ id: "b", at: START }));
    expect([isDecided, heard(following)]).toEqual([true, [false, ["b"], []]]);
    expect((await linesOf(writer)).map(({ id }) => id)).toEqual(["a", "me.1", "b"]);
  });

  it("lets nobody else decide meanwhile, and is as it was where deciding fails", async () => {
    const { writer, following } = two();
    const decide = (): boolean =>
      following.decide(() => {
        expect(() => writer.enter(ledgerEntry({ id: "a", at: START }))).toThrow(/locked/);
        throw new Error("no");
      });
    expect(decide).toThrow("no");
    writer.enter(ledgerEntry({ id: "a", at: START }));
    expect((await linesOf(writer)).map(({ id }) => id)).toEqual(["a"]);
    expect(heard(following)).toEqual([false, ["a"], []]);
  });

  it("tells what a clock that was set back has entered, though there is too much: what came first is dropped", () => {
    const { writer, following } = two();
    const ids = Array.from({ length: 256 }, (_, each) => `${each}`);
    for (const id of ids) writer.enter(ledgerEntry({ id, at: START }));
    expect(heard(following)).toEqual([true, expect.arrayContaining(ids), []]);
    clock.set(START - 3_600_000);
    for (const id of ["x", "y"]) writer.enter(ledgerEntry({ id, at: clock.now() }));
    expect(heard(following)).toEqual([false, ["x", "y"], []]);
  });

  it("keeps its last line, however old: the next one must not be taken for it", async () => {
    const { writer, following } = two();
    writer.enter(ledgerEntry({ id: "owed for long", at: START - 2 * DAY_MS }));
    expect((await linesOf(writer)).map(({ id }) => id)).toEqual(["owed for long"]);
    expect(heard(following)).toEqual([true, ["owed for long"], []]);
    writer.enter(ledgerEntry({ id: "next", at: START }));
    expect(heard(following)).toEqual([false, ["next"], []]);
  });
});

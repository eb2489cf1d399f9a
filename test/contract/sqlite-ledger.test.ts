import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { type LedgerBounds, type OwnLedger } from "../../src/usage/ledger.ts";
import { createSqliteLedger } from "../../src/usage/sqlite-ledger.ts";
import { StoreUnavailable } from "../../src/errors.ts";
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
  work: (ledger: OwnLedger, countLines: () => unknown) => T,
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
  it("keeps completed and uncompleted lines, and its start, over a restart", async () => {
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

  it("still knows after a restart that lines were dropped", async () => {
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

  it("does not grow through processes that run briefly", async () => {
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

  it("corrects lines from a clock that was ahead, so that they expire in time", async () => {
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

  it("stores whole milliseconds", async () => {
    clock.set(START);
    await during(temporaryDirectory(), async (ledger) => {
      ledger.enter(ledgerEntry({ at: START + 0.25 }));
      ledger.complete("send-1", { status: 200, durationMs: 12.5001, arrivedAt: START + 3.75 });
      expect(await linesOf(ledger)).toEqual([
        ledgerLine({ at: START, completion: { status: 200, durationMs: 13, arrivedAt: START + 4 } }),
      ]);
    });
  });

  it("that cannot be read fails as every store does", async () => {
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

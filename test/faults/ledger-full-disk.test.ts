/**
 * The ledger on a full disk: calls that were sent still count after a restart, and the report does not claim more than
 * the ledger knows.
 */
import { describe, expect, it } from "vitest";

import { instantOf, type LedgerLine } from "../../src/usage/ledger.ts";
import { type LedgerOnDisk, openLedgerOnDisk } from "../../src/usage/ledger-on-disk.ts";
import { reportUsage, type UsageReport } from "../../src/usage/usage-report.ts";
import type { SqliteBackend } from "../../src/cache/store/sqlite.ts";
import { ask } from "../support/ask.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { EXACT_PAGES, startGateway } from "../support/gateway.ts";
import { ledgerEntry, linesOf } from "../support/ledger.ts";
import { createSmallDisk } from "../support/small-disk.ts";
import { openSqliteBackend } from "../support/sqlite.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const LIMIT = { name: "1h", limit: 400, windowMs: HOUR_MS };

interface Life {
  readonly backend: SqliteBackend;
  readonly ledger: LedgerOnDisk;
  readonly warnings: string[];
  /** Sends a call that arrives at once. */
  readonly send: () => void;
  /** The calls that a new process counts. */
  readonly counted: (since: number) => readonly LedgerLine[];
  readonly report: () => Promise<UsageReport>;
  /** A clean end. */
  readonly stop: () => Promise<void>;
  /** `kill -9`: nothing is written any more. */
  readonly kill: () => Promise<void>;
}

let sends = 0;

function start(directory: string, clock: FakeClock, upstream = "upstream"): Life {
  const warnings: string[] = [];
  const backend = openSqliteBackend(directory, { clock, owner: { account: "account", upstream } });
  const ledger = openLedgerOnDisk({
    ...backend,
    retentionMs: 7 * DAY_MS,
    maxRecords: 10_000,
    now: clock.now,
    warn: (message) => void warnings.push(message),
    outOfOrder: ({ what }) => void warnings.push(`out of order: ${what}`),
    backInOrder: (what) => void warnings.push(`back in order: ${what}`),
  });
  return {
    backend,
    ledger,
    warnings,
    send() {
      const entry = ledgerEntry({ id: `send-${++sends}`, at: clock.now(), limits: "400/3600000" });
      ledger.enter(entry);
      ledger.complete(entry.id, { status: 200, durationMs: 10, arrivedAt: entry.at });
    },
    counted: (since) => ledger.recent("api", since),
    report: () =>
      reportUsage({
        ledger,
        windows: { api: [LIMIT], images: [LIMIT] },
        by: "app",
        from: clock.now() - HOUR_MS,
        to: clock.now() + 1,
      }),
    async stop() {
      ledger.close();
      await backend.close();
    },
    kill: () => backend.close(),
  };
}

describe("a gateway on a small disk", () => {
  it("has counted every call after a restart, and its usage report says so", async () => {
    const { directory } = createSmallDisk();
    const env = { ...EXACT_PAGES, DATA_DIR: directory, BUDGET: "400/1h" };
    const first = await startGateway({ env });
    for (let each = 0; each < 400; each++)
      expect((await first.get(`/listings?limit=20&offset=${each}`)).status).toBe(200);
    await first.stop();

    const second = await startGateway({ env });
    expect((await second.get("/listings?limit=20&offset=400")).status).toBe(503);
    expect((await ask(`${second.adminUrl}/usage`)).json()).toMatchObject({
      totals: { sends: 400 },
      windows: [{ name: "1h", maximum: 400, kept: true }, { name: "images/1m" }],
    });
    expect(second.sandbox.requests()).toEqual([]);
  });
});

describe("the ledger on a full disk", () => {
  it("evicts cached answers and loses no call", async () => {
    const disk = createSmallDisk();
    const clock = createFakeClock();
    const from = clock.now();
    const first = start(disk.directory, clock);
    const { store, database } = first.backend;
    for (let each = 0; each < 40; each++) {
      const picture = entryWith(Buffer.alloc(8_000, each), clock.now(), { contentType: "image/jpeg" });
      // The disk may be full before the last one.
      await store.set(keyOf(`picture/${each}`), picture).catch(() => undefined);
    }
    const cached = store.stats()?.entries ?? 0;
    disk.fill(database);
    for (let each = 0; each < 2_000; each++) {
      first.send();
      await clock.advance(10);
    }
    expect(first.ledger.gaps()).toEqual([]);
    expect(store.stats()?.entries).toBeLessThan(cached);
    await first.stop();

    const second = start(disk.directory, clock);
    expect(second.counted(from)).toHaveLength(2_000);
    expect(second.ledger.gaps()).toEqual([]);
    expect([...first.warnings, ...second.warnings]).toEqual([]);
    await second.stop();
  });

  it.each(["stop", "kill"] as const)(
    "records calls that it cannot write as a gap, also after a %s",
    async (end) => {
      const disk = createSmallDisk();
      const clock = createFakeClock();
      const from = clock.now();
      const first = start(disk.directory, clock);
      for (let each = 0; each < 400; each++) {
        // Another program fills the space that the ledger frees.
        disk.fill(first.backend.database);
        first.send();
        await clock.advance(10);
      }
      const lastAt = clock.now() - 10;
      expect((await first.report()).windows[0]).toMatchObject({ kept: null });
      await first[end]();

      const second = start(disk.directory, clock);
      const written = await linesOf(second.ledger);
      const [gap] = second.ledger.gaps();
      expect(gap).toMatchObject({ origin: "api", to: lastAt });
      expect(written.length).toBeLessThan(400);
      expect(gap?.sends).toBe(400 - written.length);
      const counted = second.counted(from);
      expect(counted).toHaveLength(400);
      expect(counted.filter((line) => instantOf(line) === lastAt).length).toBeGreaterThanOrEqual(
        gap?.sends ?? 400,
      );
      const { windows, gaps } = await second.report();
      expect(gaps).toEqual([gap]);
      expect(windows).toMatchObject([
        { name: "1h", kept: null },
        { name: "images/1h", kept: true },
      ]);
      disk.empty(second.backend.database);
      await clock.advance(2 * HOUR_MS);
      second.send();
      expect(second.counted(clock.now() - HOUR_MS)).toHaveLength(1);
      await second.stop();

      const third = start(disk.directory, clock);
      expect((await third.report()).windows[0]).toMatchObject({ maximum: 1, kept: true });
      expect(third.ledger.gaps()).toEqual([gap]);
      await clock.advance(7 * DAY_MS);
      await third.stop();
      const last = start(disk.directory, clock);
      expect(last.ledger.gaps()).toEqual([]);
      await last.stop();
    },
  );

  it("is opened although the cache must be dropped because the upstream has changed", async () => {
    const disk = createSmallDisk();
    const clock = createFakeClock();
    const from = clock.now();
    const first = start(disk.directory, clock);
    for (let each = 0; each < 10; each++) first.send();
    disk.fill(first.backend.database);
    await first.stop();
    disk.fill(first.backend.database);
    const second = start(disk.directory, clock, "another upstream");
    second.send();
    expect(second.counted(from)).toHaveLength(11);
    expect(second.ledger.gaps()).toEqual([]);
    await second.stop();
  });

  it("closes the gap when there is space again", async () => {
    const disk = createSmallDisk();
    const clock = createFakeClock();
    const from = clock.now();
    const first = start(disk.directory, clock);
    for (let each = 0; each < 400; each++) {
      disk.fill(first.backend.database);
      first.send();
    }
    expect([first.ledger.gaps().length, first.ledger.isDurable()]).toEqual([1, false]);
    disk.empty(first.backend.database);
    await clock.advance(2_000);
    first.send();
    expect([first.ledger.gaps(), first.ledger.isDurable()]).toEqual([[], true]);
    expect(first.warnings).toEqual(["out of order: the ledger on disk", "back in order: the ledger on disk"]);
    await first.kill();
    const second = start(disk.directory, clock);
    expect(second.counted(from)).toHaveLength(401);
    expect(second.ledger.gaps()).toEqual([]);
    await second.stop();
  });
});

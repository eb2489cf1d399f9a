/**
 * The ledger on a full disk: calls that were sent still count after a restart, and the report does not claim more than
 * the ledger knows.
 */
import { closeSync, mkdirSync, openSync, readFileSync, rmdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { openLedgerOnDisk } from "../../src/usage/full-disk.ts";
import { reportUsage } from "../../src/usage/report.ts";
import { openUnrecordedMark } from "../../src/usage/unrecorded-mark.ts";
import { SingleProcessLimiter } from "../../src/ratelimit/limits/single-process-limiter.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { EXACT_PAGES, startGateway } from "../support/gateway.ts";
import { ledgerEntry } from "../support/ledger.ts";
import { createSmallDisk, type SmallDisk } from "../support/small-disk.ts";
import { temporaryDirectory } from "../support/files.ts";
import { openSqliteStore } from "../support/sqlite.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const LIMIT = { name: "1h", limit: 5_000, windowMs: HOUR_MS };

type Life = ReturnType<typeof start>;

/** A call is recorded while the file has a free page. So many calls find one at most. */
const MOST_THAT_FIT = 4_000;
let sends = 0;

/** Sends calls until one is not recorded, while another program takes the space that the ledger frees. */
async function sendUntilFull({ backend, ledger, send }: Life, disk: SmallDisk, clock: FakeClock) {
  for (let each = 0; ledger.isDurable() && each < MOST_THAT_FIT; each++) {
    if (each % 25 === 0) disk.fill(backend.database);
    await clock.advance(10);
    send();
  }
  expect(ledger.isDurable()).toBe(false);
}

function start(directory: string, clock: FakeClock) {
  const warnings: string[] = [];
  const backend = openSqliteStore(directory, { clock });
  const ledger = openLedgerOnDisk(backend, {
    retentionMs: 7 * DAY_MS,
    maxRecords: 10_000,
    clock,
    log: {
      warn: (message) => void warnings.push(message),
      outOfOrder: ({ what }) => void warnings.push(`out of order: ${what}`),
      backInOrder: (what) => void warnings.push(`back in order: ${what}`),
    },
  });
  return {
    backend,
    ledger,
    warnings,
    /** Sends a call that arrives at once. */
    send: () => {
      const entry = ledgerEntry({ id: `send-${++sends}`, at: clock.now(), limits: "5000/3600000" });
      ledger.enter(entry);
      ledger.complete(entry.id, { status: 200, durationMs: 10, arrivedAt: entry.at });
    },
    /** The calls that a new process counts. */
    counted: (since: number) => ledger.recent("api", since),
    report: () =>
      reportUsage({
        ledger,
        windows: { api: [LIMIT], images: [LIMIT] },
        by: "app",
        from: clock.now() - HOUR_MS,
        to: clock.now() + 1,
      }),
    /** A clean end. */
    stop: async () => {
      ledger.close();
      await backend.close();
    },
    /** `kill -9`: nothing is written any more. */
    kill: () => backend.close(),
  };
}

it("a gateway on a small disk has counted every call after a restart, and its usage report says so", async () => {
  const { directory } = createSmallDisk();
  const env = { ...EXACT_PAGES, DATA_DIR: directory, BUDGET: "60/1h" };
  const first = await startGateway({ env });
  for (let each = 0; each < 60; each++)
    expect((await first.get(`/listings?limit=300&offset=${each}`)).status).toBe(200);
  expect(await first.metric('gateway_cache_evictions_total{tier="sqlite"}')).toBeGreaterThan(0);
  await first.stop();

  const second = await startGateway({ env });
  expect((await second.get("/listings?limit=300&offset=60")).status).toBe(503);
  const windows = [{ name: "1h", maximum: 60, kept: true }, { name: "images/1m" }];
  expect(await second.shows("/usage")).toMatchObject({ totals: { sends: 60 }, windows });
  expect(second.sandbox.requests()).toEqual([]);
});

describe("the ledger on a full disk", () => {
  it("evicts cached answers and loses no call", async () => {
    const disk = createSmallDisk();
    const clock = createFakeClock();
    const from = clock.now();
    const first = start(disk.directory, clock);
    for (let each = 0; each < 40; each++) {
      const picture = entryWith(Buffer.alloc(8_000, each), clock.now(), { contentType: "image/jpeg" });
      // The disk may be full before the last one.
      await first.backend.set(keyOf(`picture/${each}`), picture).catch(() => undefined);
    }
    const cached = first.backend.stats()?.entries ?? 0;
    disk.fill(first.backend.database);
    for (let each = 0; each < 1_000; each++) {
      first.send();
      await clock.advance(10);
    }
    expect(first.ledger.unrecorded?.()).toBeUndefined();
    expect(first.backend.stats()?.entries).toBeLessThan(cached);
    await first.stop();
    const second = start(disk.directory, clock);
    expect(second.counted(from)).toHaveLength(1_000);
    expect([...first.warnings, ...second.warnings]).toEqual([]);
    await second.stop();
  });

  it.each(["stop", "kill"] as const)(
    "says in which time it recorded nothing, also after a %s and a clock that was set forward",
    async (end) => {
      const disk = createSmallDisk();
      const clock = createFakeClock();
      const first = start(disk.directory, clock);
      first.send();
      await sendUntilFull(first, disk, clock);
      const since = clock.now();
      await clock.advance(10);
      first.send();
      const until = clock.now();
      expect(first.warnings).toEqual(["out of order: the ledger on disk"]);
      expect(first.ledger.unrecorded?.()).toEqual({ since, until });
      expect((await first.report()).windows[0]).toMatchObject({ kept: "unknown" });
      await clock.advance(5_000);
      await first[end]();
      clock.set(clock.now() + HOUR_MS);

      const second = start(disk.directory, clock);
      // The machine has not started again, so the clock does not matter.
      expect(second.ledger.unrecorded?.()).toEqual({ since, until: clock.now() - 5_000 });
      expect(second.warnings).toEqual([expect.stringContaining("not recorded")]);
      expect((await second.report()).windows[0]).toMatchObject({ kept: "unknown" });
      disk.empty(second.backend.database);
      await clock.advance(3 * HOUR_MS);
      second.send();
      expect((await second.report()).windows[0]).toMatchObject({ maximum: 1, kept: true });
      await clock.advance(7 * DAY_MS);
      expect(second.ledger.unrecorded?.()).toBeUndefined();
      await second.stop();
    },
  );

  it("records calls again when there is space", async () => {
    const disk = createSmallDisk();
    const clock = createFakeClock();
    const first = start(disk.directory, clock);
    await sendUntilFull(first, disk, clock);
    disk.empty(first.backend.database);
    await clock.advance(2_000);
    const before = first.counted(0).length;
    first.send();
    expect([first.counted(0).length, first.ledger.isDurable()]).toEqual([before + 1, true]);
    expect(first.warnings).toEqual(["out of order: the ledger on disk", "back in order: the ledger on disk"]);
    await first.stop();
  });

  it("keeps short windows full after a start with such a mark, and long ones as recorded", async () => {
    const directory = temporaryDirectory();
    const clock = createFakeClock();
    const minute = { name: "1m", limit: 3, windowMs: 60_000 };
    const day = { name: "1d", limit: 100, windowMs: DAY_MS };
    writeFileSync(join(directory, "ledger-unrecorded"), "damaged");
    const { ledger, stop } = start(directory, clock);
    const config = { windows: [minute, day], perDay: new Map(), arrivalMs: 1_000 };
    const limiter = new SingleProcessLimiter({ origin: "api", config, ledger, clock, process: "one" });
    const ask = { app: "web", priority: "interactive", resource: "listings", cause: "miss" } as const;
    const acquire = () => limiter.acquire({ ...ask, query: "" });
    const until = clock.monotonic() + 61_000;
    expect(await acquire()).toEqual({ kind: "wait", reason: "budget" });
    const full = { spent: 3, remaining: 0, freeAt: [until] };
    expect(limiter.state().windows).toMatchObject([full, { spent: 0, remaining: 100 }]);
    await clock.advance(61_000);
    expect(await acquire()).toMatchObject({ kind: "permit" });
    // A window that a reload adds.
    limiter.configure({ ...config, windows: [{ name: "1h", limit: 100, windowMs: 3_600_000 }] });
    expect(await acquire()).toMatchObject({ kind: "wait", reason: "budget" });
    await stop();
  });

  it("ends the start if not even the mark can be written, and names the remedy", () => {
    const disk = createSmallDisk();
    const { database, close } = openSqliteStore(disk.directory);
    mkdirSync(join(disk.directory, "ledger-unrecorded"));
    expect(() => openMark(disk.directory)).toThrow(/ledger-unrecorded is a directory.*Move it away/);
    rmdirSync(join(disk.directory, "ledger-unrecorded"));
    symlinkSync("elsewhere", join(disk.directory, "ledger-unrecorded"));
    expect(() => openMark(disk.directory)).toThrow(/ledger-unrecorded is a link.*Move it away/);
    expect(database.isOpen).toBe(true);
    return close();
  });
});

it("a mark that is closed is kept in memory, and writes to no file that was opened since", () => {
  const directory = temporaryDirectory();
  const mark = openMark(directory);
  mark.close();
  const [other, text] = [join(directory, "other"), "of another"];
  const descriptor = openSync(other, "w+");
  writeFileSync(other, text);
  mark.extend();
  mark.close();
  expect(mark.read()).toBeDefined();
  expect(readFileSync(other, "utf8")).toBe(text);
  closeSync(descriptor);
});

function openMark(directory: string): ReturnType<typeof openUnrecordedMark> {
  return openUnrecordedMark({ directory, retentionMs: DAY_MS, clock: createFakeClock() });
}

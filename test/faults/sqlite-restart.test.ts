/**
 * What a restart keeps, and what a kill at any moment leaves behind.
 */
import { once } from "node:events";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { describe, expect, it } from "vitest";

import { createSqliteLedger } from "../../src/usage/sqlite-ledger.ts";
import type { StoreEvent } from "../../src/cache/store/port.ts";
import { transcode } from "../../src/cache/encoder.ts";
import type { Purge } from "../../src/cache/store/purges.ts";
import type { Store } from "../../src/cache/store/port.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { gatewayEnv, startGateway } from "../support/gateway.ts";
import { ledgerEntry } from "../support/ledger.ts";
import {
  entryOfNumber,
  KEPT_MS,
  KEYS,
  keyOfNumber,
  ledgerOn,
  PURGE_EVERY,
  WRITTEN_AT,
} from "../support/sqlite-writer.ts";
import { run } from "../support/process.ts";
import { temporaryDirectory } from "../support/files.ts";
import { openSqliteStore } from "../support/sqlite.ts";

const DAY_MS = 86_400_000;

async function bodyOf(store: Store, key: string): Promise<string | undefined> {
  const entry = await store.get(key);
  return entry && (await transcode(entry, "identity")).toString("latin1");
}

/** The purges that a backend reports at its start. */
function pastPurges(backend: ReturnType<typeof openSqliteStore>): readonly Purge[] {
  const events: StoreEvent[] = [];
  backend.onEvent((event) => events.push(event));
  return events.flatMap((event) => (event.kind === "purged" ? event.purges : []));
}

describe("a restart", () => {
  it("keeps answers, purges and the ledger", async () => {
    const directory = temporaryDirectory();
    const clock = createFakeClock();
    const first = openSqliteStore(directory, { clock });
    await first.set(keyOf("sold/1"), entryWith("kept", clock.now()));
    const purges = [
      await first.purge({ kind: "tag", tag: "area:76" }, false),
      await first.purge({ kind: "key", key: keyOf("räksmörgås") }, true),
      await first.purge({ kind: "all" }, false),
    ];
    const bounds = { retentionMs: DAY_MS, maxRecords: 1_000, clock };
    createSqliteLedger(first.database, bounds).enter(ledgerEntry({ at: clock.now() }));
    await first.close();

    const second = openSqliteStore(directory, { clock });
    expect(pastPurges(second)).toEqual(purges);
    expect(await bodyOf(second, keyOf("sold/1"))).toBe("kept");
    expect(createSqliteLedger(second.database, bounds).recent("api", 0)).toEqual([
      { ...ledgerEntry({ at: clock.now() }), completion: undefined },
    ]);
    expect(second.stats()).toMatchObject({ entries: 1 });
    await second.close();
  });

  it("never lets the purge epoch go back, also if the clock does", async () => {
    const directory = temporaryDirectory();
    const clock = createFakeClock();
    const first = openSqliteStore(directory, { clock, retentionMs: 1_000 });
    const { epoch } = await first.purge({ kind: "all" }, false);
    await first.close();
    clock.set(clock.now() - 30 * DAY_MS);
    const second = openSqliteStore(directory, { clock, retentionMs: 1_000 });
    expect((await second.purge({ kind: "all" }, false)).epoch).toBeGreaterThan(epoch);
    clock.set(clock.now() + 60 * DAY_MS);
    const last = await second.purge({ kind: "all" }, true);
    expect(pastPurges(second)).toEqual([last]);
    await second.close();
  });
});

describe("a process that is killed in the middle of writing", () => {
  // At another moment each time: the number of entries after which the kill is sent.
  it.each([1, 40, 250])("loses nothing that was stored, and leaves no damage (after %i)", async (after) => {
    const directory = temporaryDirectory();
    const script = fileURLToPath(new URL("../support/sqlite-writer.ts", import.meta.url));
    const writer = spawn(process.execPath, [script, directory, "1"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = once(writer, "exit");
    let stored = 0;
    for await (const line of createInterface(writer.stdout)) {
      expect(line).toMatch(/^(opened|\d+)$/);
      if (line !== "opened") stored = Number(line);
      if (stored === after) writer.kill("SIGKILL");
    }
    expect(await exited).toEqual([null, "SIGKILL"]);
    expect(stored).toBeGreaterThanOrEqual(after);

    const warnings: string[] = [];
    const backend = openSqliteStore(directory, { warnings, retentionMs: KEPT_MS });
    expect(warnings).toEqual([]);
    const newest = new Map<string, number>();
    for (let number = 1; number <= stored; number++) newest.set(keyOfNumber(number), number);
    for (const [key, number] of newest) {
      const body = await bodyOf(backend, key);
      const isOf = (one: number): boolean => body === entryOfNumber(one).bodies.identity?.toString("latin1");
      // It may have got on a little between its last word and its death.
      expect(isOf(number) || (number + KEYS > stored && isOf(number + KEYS))).toBe(true);
    }
    expect(pastPurges(backend).length).toBeGreaterThanOrEqual(Math.floor(stored / PURGE_EVERY));
    const lines = ledgerOn(backend.database).recent("api", 0).slice(0, stored);
    expect(lines.map(({ at }) => at)).toEqual(Array.from({ length: stored }, (_, at) => WRITTEN_AT + 1 + at));
    expect(lines.every(({ completion }) => completion?.status === 200)).toBe(true);
    expect(await backend.set(keyOf("sold/new"), entryWith("new", Date.now()))).toBe(true);
    await backend.close();
  });
});

describe("a second process on the same directory", () => {
  it("waits for the first to end, and uses its data", async () => {
    const directory = temporaryDirectory();
    const first = openSqliteStore(directory);
    await first.set(keyOf("kept"), entryWith("kept", Date.now()));
    const script = fileURLToPath(new URL("../support/sqlite-writer.ts", import.meta.url));
    const second = spawn(process.execPath, [script, directory, "1", "1"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines: string[] = [];
    for await (const line of createInterface(second.stdout)) {
      lines.push(line);
      if (line.startsWith("warning: Another process uses the file")) await first.close();
    }
    expect(lines.slice(1)).toEqual(["opened", "1", "done"]);
    const again = openSqliteStore(directory, { retentionMs: KEPT_MS });
    expect(await bodyOf(again, keyOf("kept"))).toBe("kept");
    expect(await again.get(keyOfNumber(1))).toBeDefined();
    await again.close();
  });

  it("ends with exit code 1 and a reason if the first one keeps running", async () => {
    const env = { DATA_DIR: temporaryDirectory() };
    const first = await startGateway({ env });
    const second = run(["gateway"], { ...gatewayEnv(first.sandboxUrl), ...env });
    expect(await second.ended).toBe(1);
    expect(second.output()).toContain("waiting for it to end");
    expect(second.output()).toMatch(/DATA_DIR.*another process uses .*sqlite/);
    expect(second.output()).not.toContain("listens");
    expect((await first.get("/areas?q=nacka")).status).toBe(200);
  });
});

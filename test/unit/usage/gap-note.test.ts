import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

import { type GapNote, openGapNote } from "../../../src/usage/gap-note.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { temporaryDirectory } from "../../support/sqlite.ts";

const DAY_MS = 86_400_000;

interface Scene {
  readonly clock: FakeClock;
  readonly file: string;
  readonly warnings: string[];
  /** Starts a process. */
  readonly open: () => GapNote;
}

function setUp(): Scene {
  const clock = createFakeClock();
  const directory = temporaryDirectory();
  const warnings: string[] = [];
  const warn = (message: string): void => void warnings.push(message);
  return {
    clock,
    file: join(directory, "ledger-gaps"),
    warnings,
    open: () => openGapNote({ directory, now: clock.now, warn, retentionMs: 7 * DAY_MS, freeSpace: [] }),
  };
}

it("the note keeps the gaps of many processes, without losing a call", async () => {
  const { clock, file, open } = setUp();
  const from = clock.now();
  for (let life = 0; life < 100; life++) {
    const note = open();
    const at = clock.now();
    note.write([
      { origin: "api", from: at, to: at + 10, sends: 1_000_000 + life },
      { origin: "images", from: at, to: at + 10, sends: 1 },
    ]);
    note.close();
    await clock.advance(60_000);
  }
  expect(statSync(file).size).toBe(4_096);
  const { past, close } = open();
  const api = past.filter(({ origin }) => origin === "api");
  expect(api.reduce((sum, { sends }) => sum + sends, 0)).toBe(100_004_950);
  expect(past.reduce((sum, { sends }) => sum + sends, 0)).toBe(100_005_050);
  expect(Math.min(...api.map((gap) => gap.from))).toBe(from);
  expect(Math.max(...api.map((gap) => gap.to))).toBe(from + 99 * 60_000 + 10);
  close();
});

it("a clock that was ahead does not make calls count for longer", () => {
  const { clock, open } = setUp();
  const first = open();
  const ahead = clock.now() + 365 * DAY_MS;
  first.write([{ origin: "api", from: clock.now(), to: ahead, sends: 3 }]);
  first.close();
  const second = open();
  expect(second.past).toEqual([{ origin: "api", from: clock.now(), to: clock.now(), sends: 3 }]);
  second.close();
});

it("a damaged note means that calls may be missing", () => {
  const { clock, file, warnings, open } = setUp();
  writeFileSync(file, '{"gaps":[{"origin":"api","fr');
  const note = open();
  expect(note.past).toMatchObject([
    { origin: "api", to: clock.now(), sends: 0 },
    { origin: "images", to: clock.now(), sends: 0 },
  ]);
  expect(warnings).toEqual([
    "The note of unwritten calls cannot be read: calls may be missing from the ledger.",
  ]);
  note.close();
});

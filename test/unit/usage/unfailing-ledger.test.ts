import { describe, expect, it, onTestFinished } from "vitest";

import { type GapNote, openGapNote } from "../../../src/usage/gap-note.ts";
import type { LedgerBounds, OwnLedger } from "../../../src/usage/ledger.ts";
import { createMemoryLedger } from "../../../src/usage/memory-ledger.ts";
import {
  createUnfailingLedger,
  type TroubleOptions,
  type UnfailingLedger,
  type UnfailingOptions,
} from "../../../src/usage/unfailing-ledger.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { ledgerEntry, ledgerLine, linesOf } from "../../support/ledger.ts";
import { temporaryDirectory } from "../../support/sqlite.ts";

const FAILS = "out of order: the ledger on disk";
const WORKS = "back in order: the ledger on disk";
const REST_MS = 2_000;

/** A ledger that works while it is switched on, and counts how often it was asked. */
interface Switched extends OwnLedger {
  /** So many operations it still takes. */
  takes: number;
  asked: number;
}

function switched(ledger: OwnLedger): Switched {
  function work<T>(operation: () => T): T {
    self.asked++;
    if (self.takes-- <= 0) throw new Error("disk I/O error");
    return operation();
  }
  const self: Switched = {
    ...ledger,
    takes: Number.POSITIVE_INFINITY,
    asked: 0,
    enter: (entry) => work(() => ledger.enter(entry)),
    complete: (id, completion) => work(() => ledger.complete(id, completion)),
    recent: (origin, since) => work(() => ledger.recent(origin, since)),
  };
  return self;
}

interface Scene {
  readonly clock: FakeClock;
  readonly inner: Switched;
  readonly ledger: UnfailingLedger;
  /** Makes another ledger unfailing. */
  readonly wrap: (failing: OwnLedger) => UnfailingLedger;
  readonly warnings: string[];
}

function noteIn(directory: string, options: UnfailingOptions): GapNote {
  const note = openGapNote({ ...options, directory, retentionMs: 86_400_000, freeSpace: [] });
  onTestFinished(note.close);
  return note;
}

function setUp(bounds: Partial<LedgerBounds> = {}): Scene {
  const clock = createFakeClock();
  const warnings: string[] = [];
  const inner = switched(
    createMemoryLedger({ retentionMs: 86_400_000, maxRecords: 1_000_000, now: clock.now, ...bounds }),
  );
  const options: UnfailingOptions & TroubleOptions = {
    now: clock.now,
    warn: (message) => void warnings.push(message),
    outOfOrder: ({ what }) => void warnings.push(`out of order: ${what}`),
    backInOrder: (what) => void warnings.push(`back in order: ${what}`),
  };
  const note = noteIn(temporaryDirectory(), options);
  const wrap = (failing: OwnLedger): UnfailingLedger =>
    createUnfailingLedger(failing, { ...options, note, freeSpace: [], onWorked: () => undefined });
  return { clock, inner, wrap, ledger: wrap(inner), warnings };
}

/** Enters a send now, and completes it. */
function send({ clock, ledger }: Pick<Scene, "clock" | "ledger">, id: string): void {
  ledger.enter(ledgerEntry({ id, at: clock.now() }));
  ledger.complete(id, { status: 200, durationMs: 10, arrivedAt: clock.now() });
}

describe("a ledger that never fails", () => {
  it("passes everything to the ledger while that works", async () => {
    const scene = setUp();
    const at = scene.clock.now();
    send(scene, "a");
    expect(await linesOf(scene.ledger)).toEqual([ledgerLine({ id: "a", at })]);
    expect(scene.ledger.recent("api", 0)).toEqual([ledgerLine({ id: "a", at })]);
    expect(await scene.ledger.completeSince()).toBe(at);
    expect(scene.warnings).toEqual([]);
  });

  it("reports a failure and its end once, and writes everything later in order", async () => {
    const scene = setUp();
    const { clock, inner, warnings } = scene;
    const start = clock.now();
    inner.takes = 0;
    for (const id of ["a", "b"]) send(scene, id);
    await clock.advance(REST_MS);
    // It takes two operations and then no more.
    inner.takes = 2;
    send(scene, "c");
    expect(warnings).toEqual([FAILS]);
    expect(await linesOf(inner)).toEqual([ledgerLine({ id: "a", at: start })]);
    await clock.advance(REST_MS);
    inner.takes = Number.POSITIVE_INFINITY;
    send(scene, "d");
    expect(await linesOf(inner)).toEqual([
      ledgerLine({ id: "a", at: start }),
      ledgerLine({ id: "b", at: start }),
      ledgerLine({ id: "c", at: start + REST_MS }),
      ledgerLine({ id: "d", at: start + 2 * REST_MS }),
    ]);
    expect(warnings).toEqual([FAILS, WORKS]);
  });

  it("continues where it stopped: no operation is repeated", async () => {
    const scene = setUp();
    const { clock, inner } = scene;
    inner.takes = 1;
    for (const id of ["a", "b"]) send(scene, id);
    await clock.advance(REST_MS);
    [inner.takes, inner.asked] = [Number.POSITIVE_INFINITY, 0];
    send(scene, "c");
    // All but the first of six, and none of the time in between.
    expect(inner.asked).toBe(5);
  });

  it("pauses after a failure, but not longer because the clock was set back", async () => {
    const scene = setUp();
    const { clock, inner, ledger } = scene;
    inner.takes = 0;
    for (const id of ["a", "b", "c"]) send(scene, id);
    expect(inner.asked).toBe(1);
    await clock.advance(REST_MS - 1);
    send(scene, "d");
    expect(inner.asked).toBe(1);
    await clock.advance(1);
    send(scene, "e");
    expect(inner.asked).toBe(2);
    clock.set(clock.now() - 3_600_000);
    ledger.complete("e", { status: 200, durationMs: 1, arrivedAt: clock.now() });
    expect(inner.asked).toBe(3);
  });

  it("starts empty and reports that if earlier calls cannot be read", () => {
    const { inner, ledger, warnings } = setUp();
    inner.takes = 0;
    for (const origin of ["api", "images"] as const) expect(ledger.recent(origin, 0)).toEqual([]);
    expect(warnings).toEqual([FAILS]);
  });

  it("has a gap while something is unwritten, and writes it before reading", async () => {
    const scene = setUp();
    const { clock, inner, ledger } = scene;
    const start = clock.now();
    inner.takes = 0;
    send(scene, "a");
    await clock.advance(1_000);
    ledger.complete("b", { status: 200, durationMs: 1_000, arrivedAt: clock.now() });
    ledger.enter(ledgerEntry({ id: "c", at: clock.now(), origin: "images" }));
    const later = start + 1_000;
    expect(ledger.gaps()).toEqual([
      { origin: "api", from: start, to: later, sends: 1 },
      { origin: "images", from: later, to: later, sends: 1 },
    ]);
    expect(await linesOf(ledger)).toEqual([]);
    await clock.advance(1_000);
    inner.takes = Number.POSITIVE_INFINITY;
    expect((await linesOf(ledger)).map(({ id }) => id)).toEqual(["a", "c"]);
    expect(ledger.gaps()).toEqual([]);
  });

  it("drops the oldest of too many unwritten calls, but keeps their number", async () => {
    const { clock, inner, ledger, warnings } = setUp();
    const start = clock.now();
    inner.takes = 0;
    for (let each = 0; each < 100_010; each++) {
      clock.set(start + each);
      ledger.enter(ledgerEntry({ id: String(each), at: clock.now() }));
      // It is tried now and then meanwhile.
      inner.takes = 0;
    }
    const last = clock.now();
    expect(ledger.gaps()).toEqual([{ origin: "api", from: start, to: last, sends: 100_010 }]);
    expect(warnings).toEqual([FAILS, expect.stringMatching(/^The ledger has lost lines/)]);
    clock.set(last + REST_MS);
    inner.takes = Number.POSITIVE_INFINITY;
    // Not all at once, because everything else would have to wait.
    expect(await linesOf(ledger)).toHaveLength(1_000);
    for (let turn = 0; turn < 98; turn++)
      ledger.complete("nobody", { status: 200, durationMs: 0, arrivedAt: last });
    expect((await linesOf(ledger)).map(({ id }) => Number(id))).toEqual(
      Array.from({ length: 100_000 }, (_, index) => index + 10),
    );
    expect(ledger.gaps()).toEqual([{ origin: "api", from: start, to: last, sends: 10 }]);
  });
});

describe("at the end of the process", () => {
  it("the ledger gets everything unwritten, also during a pause", async () => {
    const scene = setUp();
    scene.inner.takes = 0;
    for (let index = 0; index < 3_000; index++) send(scene, `send-${index}`);
    scene.inner.takes = Number.POSITIVE_INFINITY;
    scene.ledger.flush();
    expect(await linesOf(scene.inner)).toHaveLength(3_000);
    expect(scene.warnings).toEqual([FAILS, WORKS]);
  });

  it("the attempts end, and what is missing is reported", async () => {
    const scene = setUp();
    scene.inner.takes = 1;
    for (const id of ["a", "b"]) send(scene, id);
    scene.ledger.flush();
    expect(await linesOf(scene.inner)).toHaveLength(1);
    expect(scene.warnings).toEqual([
      FAILS,
      "The ledger could not be written: of the last calls only the number is recorded.",
    ]);
  });
});

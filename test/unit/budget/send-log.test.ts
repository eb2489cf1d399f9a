import { DatabaseSync } from "node:sqlite";

import { describe, expect, it, onTestFinished } from "vitest";

import type { SendLog } from "../../../src/budget/send-log.ts";
import { createSqliteSends } from "../../../src/budget/sqlite-sends.ts";
import { createThrottle } from "../../../src/budget/throttle.ts";
import type { Throttled, Waiting } from "../../../src/exchange.ts";
import { LAYOUT } from "../../../src/platform/sqlite-layout.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";

const MINUTE_MS = 60_000;
const WINDOWS = [{ name: "1m", limit: 3, windowMs: MINUTE_MS }];
const PATIENT: Waiting = {
  deadlineAt: () => Number.POSITIVE_INFINITY,
  abandoned: new AbortController().signal,
};

function openDatabase(): DatabaseSync {
  const database = new DatabaseSync(":memory:");
  onTestFinished(() => database.close());
  database.exec(LAYOUT.schema);
  return database;
}

/** A process' throttle over a log that outlives it. */
function throttleOver(sendLog: SendLog, clock: FakeClock, warnings: string[] = []): Throttled {
  return createThrottle({
    windows: WINDOWS,
    concurrency: 1,
    clock,
    sendLog,
    warn: (message) => void warnings.push(message),
  });
}

async function send(throttled: Throttled, times = 1): Promise<void> {
  for (let sent = 0; sent < times; sent++) await throttled(async () => undefined, PATIENT);
}

describe("a throttle that begins again", () => {
  it("counts what was sent before, for as long as it counts", async () => {
    const clock = createFakeClock();
    const database = openDatabase();
    const log = (): SendLog => createSqliteSends(database, "api", MINUTE_MS);
    await send(throttleOver(log(), clock), 2);
    await clock.advance(20_000);
    await send(throttleOver(log(), clock));

    const third = throttleOver(log(), clock);
    const hurried = { ...PATIENT, deadlineAt: () => clock.now() + 19_999 };
    await expect(third(async () => expect.unreachable(), hurried)).rejects.toMatchObject({
      code: "temporary-reduced-capacity",
      details: { retryAfterSeconds: 40 },
    });
    await clock.advance(40_000);
    await send(third, 2);
    await expect(third(async () => expect.unreachable(), hurried)).rejects.toMatchObject({
      details: { retryAfterSeconds: 20 },
    });
  });

  it("counts a send before the call departs", async () => {
    const clock = createFakeClock();
    const database = openDatabase();
    let known: readonly number[] = [];
    await throttleOver(createSqliteSends(database, "api", MINUTE_MS), clock)(async () => {
      known = createSqliteSends(database, "api", MINUTE_MS).load(clock.now());
    }, PATIENT);
    expect(known).toEqual([clock.now()]);
  });

  it("goes on, and says so once, where the log fails; what it could not take it is given later", async () => {
    const clock = createFakeClock();
    const warnings: string[] = [];
    const recorded: number[] = [];
    let takes = 0;
    const start = clock.now();
    const broken = (): never => {
      throw new Error("disk I/O error");
    };
    const log: SendLog = {
      load: broken,
      record: (at) => (takes-- > 0 ? recorded.push(at) : broken()),
    };
    const throttled = throttleOver(log, clock, warnings);
    await send(throttled, 3);
    await clock.advance(MINUTE_MS);
    // It takes two and then no more.
    takes = 2;
    await send(throttled);
    expect(recorded).toEqual([start, start]);
    expect(warnings).toEqual(["What is sent upstream may be forgotten at a restart."]);
    await clock.advance(MINUTE_MS);
    takes = 99;
    await send(throttled);
    expect(recorded).toEqual([start, start, start, start + MINUTE_MS, clock.now()]);
    expect(warnings[1]).toContain("again");
    expect(warnings).toHaveLength(2);
  });

  it("leaves a log that failed alone for a while: it may be waited for at each send", async () => {
    const clock = createFakeClock();
    let asked = 0;
    const throttled = throttleOver(
      {
        load: () => [],
        record: () => {
          asked++;
          throw new Error("database is locked");
        },
      },
      clock,
    );
    await send(throttled, 3);
    expect(asked).toBe(1);
  });
});

describe("sends on disk", () => {
  it("are those of one origin within the horizon, oldest first", () => {
    const database = openDatabase();
    const [api, images] = ["api", "images"].map((origin) => createSqliteSends(database, origin, 1_000));
    for (const at of [10_000, 10_500, 10_500, 11_000]) api?.record(at);
    images?.record(10_700);
    expect(api?.load(11_000)).toEqual([10_500, 10_500, 11_000]);
    expect(api?.load(11_499)).toEqual([10_500, 10_500, 11_000]);
    expect(api?.load(11_500)).toEqual([11_000]);
    expect(images?.load(11_000)).toEqual([10_700]);
  });

  it("that a fast clock noted in the future count as sent now, and leave in due time", () => {
    const database = openDatabase();
    createSqliteSends(database, "api", 1_000).record(99_000_000);
    const sends = createSqliteSends(database, "api", 1_000);
    expect(sends.load(10_000)).toEqual([10_000]);
    sends.record(10_001);
    const later = createSqliteSends(database, "api", 1_000);
    expect(later.load(10_500)).toEqual([10_001, 10_001]);
    expect(later.load(11_001)).toEqual([]);
  });

  it("do not pile up", () => {
    const database = openDatabase();
    const sends = createSqliteSends(database, "api", 1_000);
    for (let at = 0; at < 20_000; at++) sends.record(at);
    const held = Number(database.prepare("SELECT count(*) AS n FROM ledger").get()?.["n"]);
    expect(held).toBeLessThan(1_500);
    expect(sends.load(20_000)).toHaveLength(999);
  });
});

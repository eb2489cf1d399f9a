/**
 * The usage report of the admin port, over a real socket and from a real ledger.
 */
import { describe, expect, it } from "vitest";

import { systemClock } from "../../src/process/clock.ts";
import type { LedgerEntry, Unrecorded } from "../../src/usage/ledger-line.ts";
import { createMemoryLedger } from "../../src/usage/sqlite-ledger.ts";
import { reportUsage, type UsageOptions } from "../../src/usage/report.ts";
import { StoreUnavailable } from "../../src/errors.ts";
import { appId } from "../../src/config/settings/shapes.ts";
import { startAdminPort } from "../support/admin-port.ts";
import { ask, problemCode } from "../support/ask.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { ledgerEntry } from "../support/ledger.ts";

const NOON = Date.UTC(2026, 10, 21, 12);
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const WINDOWS: UsageOptions["windows"] = {
  api: [
    { name: "1m", limit: 2, windowMs: 60_000 },
    { name: "1d", limit: 100, windowMs: DAY_MS },
  ],
  images: [{ name: "1m", limit: 100, windowMs: 60_000 }],
};

/** An admin port with a ledger behind it, complete since 40 days; it is noon. */
async function openDesk(unrecorded?: Unrecorded) {
  const clock = createFakeClock(NOON - 40 * DAY_MS);
  const bounds = { retentionMs: 50 * DAY_MS, maxRecords: 1_000, clock };
  const ledger = { ...createMemoryLedger(bounds), unrecorded: () => unrecorded };
  clock.set(NOON);
  let ids = 0;
  const url = await startAdminPort({
    clock: { ...systemClock, now: clock.now },
    usage: (query) => reportUsage({ ...query, ledger, windows: WINDOWS }),
  });
  return {
    /** Enters a call that arrived at once, `beforeMs` before noon. */
    sent(beforeMs: number, status: number | "reset" = 200, fields: Partial<LedgerEntry> = {}) {
      const entry = ledgerEntry({ id: String(ids++), at: NOON - beforeMs, ...fields });
      ledger.enter(entry);
      ledger.complete(entry.id, { status, durationMs: 10, arrivedAt: entry.at });
    },
    ask: (search: string, accept?: string) =>
      ask(`${url}/usage${search}`, accept === undefined ? {} : { headers: { accept } }),
  };
}

/** A period, and how it is understood: from the 20th or the 21st, at noon if no time is given. */
const PERIODS = `
  from=2026-11-20T07:30:00Z&to=2026-11-20T08:00Z -> 20T07:30 20T08:00
  from=2026-11-20T07:30%2B01:00 -> 20T06:30 21T12:00
  from=2026-11-20T07:30+01:00 -> 20T06:30 21T12:00
  from=2026-11-20t07:30-01:30 -> 20T09:00 21T12:00
  from=2026-11-19&to=2026-11-21 -> 19T00:00 21T00:00
  from=-7d&to=-24h -> 14T12:00 20T12:00
  from=1795089600&to=1795176000 -> 19T12:00 20T12:00
  to=2026-11-21 -> 20T00:00 21T00:00`;

describe("GET /usage", () => {
  it("shows the last 24 hours by app by default", async () => {
    const desk = await openDesk();
    desk.sent(DAY_MS + 1);
    desk.sent(HOUR_MS);
    desk.sent(HOUR_MS - 10, 404, { app: "app" });
    desk.sent(HOUR_MS - 20, "reset");
    desk.sent(10, 200, { origin: "images", resource: "images" });
    const reply = await desk.ask("");
    expect(reply.status).toBe(200);
    expect(reply.headers).toMatchObject({
      "content-type": "application/json; charset=utf-8",
      "cache-control": "no-store",
      vary: "Accept",
    });
    const none = { "2xx": 0, "3xx": 0, "4xx": 0, "5xx": 0, failed: 0, uncompleted: 0 };
    expect(reply.json()).toEqual({
      from: "2026-11-20T12:00:00.000Z",
      to: "2026-11-21T12:00:00.000Z",
      by: "app",
      totals: { ...none, sends: 4, "2xx": 2, "4xx": 1, failed: 1 },
      rows: [
        { ...none, app: "app", sends: 1, "4xx": 1 },
        { ...none, app: "web", sends: 3, "2xx": 2, failed: 1 },
      ],
      windows: [
        { name: "1m", limit: 2, maximum: 3, reachedAt: "2026-11-21T11:00:00.020Z", kept: false },
        // With the one that was sent just before the period began.
        { name: "1d", limit: 100, maximum: 4, reachedAt: "2026-11-21T11:00:00.020Z", kept: true },
        { name: "images/1m", limit: 100, maximum: 1, reachedAt: "2026-11-21T11:59:59.990Z", kept: true },
      ],
    });
  });

  it("groups by resource and by hour", async () => {
    const desk = await openDesk();
    desk.sent(3 * HOUR_MS, 200, { resource: "sold" });
    desk.sent(1);
    const byResource = [{ resource: "listings" }, { resource: "sold" }];
    const byHour = ["2026-11-21T09:00Z", "2026-11-21T11:00Z"].map((hour) => ({ hour, sends: 1 }));
    expect((await desk.ask("?by=resource")).json()).toMatchObject({ rows: byResource });
    expect((await desk.ask("?by=hour")).json()).toMatchObject({ by: "hour", rows: byHour });
  });

  it("shows the period that is asked for", async () => {
    const desk = await openDesk();
    for (const [, search = "", ...wanted] of PERIODS.matchAll(/(\S+) -> (\S+) (\S+)/g)) {
      const { from, to } = Object((await desk.ask(`?${search}`)).json());
      expect([search, from, to]).toEqual([search, ...wanted.map((at) => `2026-11-${at}:00.000Z`)]);
    }
  });

  it("says when the ledger begins if the period is longer", async () => {
    const desk = await openDesk();
    const begun = "2026-10-12T12:00:00.000Z";
    expect((await desk.ask("?from=-41d")).json()).toMatchObject({ completeSince: begun });
    // The longest window of the period's first day reaches back to before it.
    expect((await desk.ask("?from=-40d")).json()).toMatchObject({ completeSince: begun });
    expect((await desk.ask("?from=-39d")).json()).not.toHaveProperty("completeSince");
  });
});

const unrecorded: Unrecorded = { since: NOON - 5 * HOUR_MS, until: NOON - 4 * HOUR_MS };
const written = { since: "2026-11-21T07:00:00.000Z", until: "2026-11-21T08:00:00.000Z" };

it.each<[string, string, number, unknown[], boolean]>([
  ["nobody knows whether the limits were kept", "-6h", 0, ["unknown", "unknown", "unknown"], true],
  ["a limit that other calls exceeded was not kept", "-6h", 3, [false, "unknown", "unknown"], true],
  [
    "it concerns a period that begins within the longest window after it",
    "-1h",
    0,
    ["unknown", "unknown", "unknown"],
    true,
  ],
  ["it does not concern a period before", "-40h&to=-30h", 0, [true, true, true], false],
])("a time in which calls were not recorded: %s", async (_title, from, others, kept, isShown) => {
  const desk = await openDesk(unrecorded);
  for (let each = 0; each < others; each++) desk.sent(30_000 + each);
  const report: { windows?: { kept: unknown }[]; unrecorded?: unknown } = Object(
    (await desk.ask(`?from=${from}`)).json(),
  );
  expect(report.windows?.map((window) => window.kept)).toEqual(kept);
  expect(report.unrecorded).toEqual(isShown ? written : undefined);
});

describe("usage as CSV", () => {
  it.each([
    ["?format=csv", undefined, true],
    ["", "text/csv", true],
    ["", "application/json;q=0.5, text/csv", true],
    ["?format=csv", "application/json", true],
    ["", "text/html, application/json;q=0.9, text/csv;q=0.8", false],
    ["?format=json", "text/csv", false],
  ])("for %j and Accept %j: %s", async (search, accept, isCsv) => {
    const desk = await openDesk();
    desk.sent(10);
    desk.sent(5, 503, { app: "a.b_c-d" });
    const { headers, text } = await desk.ask(search, accept);
    const type = isCsv ? "text/csv; charset=utf-8; header=present" : "application/json; charset=utf-8";
    expect(headers).toMatchObject({ "content-type": type, "cache-control": "no-store", vary: "Accept" });
    const rows =
      "app,sends,2xx,3xx,4xx,5xx,failed,uncompleted\r\na.b_c-d,1,0,0,0,1,0,0\r\nweb,1,1,0,0,0,0,0\r\n";
    expect(text === rows).toBe(isCsv);
  });

  it("cannot contain formulas, because no app id begins or ends one", () => {
    const ids = ["=1+1", "+1", "@SUM(1)", "\t1", "\r1", "-1+A1", "a|b", "a!b", 'a"b', "a,b", "a;b", "(1)"];
    expect(ids.filter((id) => appId.safeParse(id).success)).toEqual([]);
    expect(appId.safeParse("web").success).toBe(true);
  });
});

it("a ledger that cannot be read gives a problem", async () => {
  const url = await startAdminPort({ usage: () => Promise.reject(new StoreUnavailable("disk I/O error")) });
  const reply = await ask(`${url}/usage?format=csv`);
  expect([reply.status, problemCode(reply)]).toEqual([503, "store-unavailable"]);
  expect(reply.text).not.toContain("disk");
});

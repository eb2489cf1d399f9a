/** Reports the upstream calls of a period, and whether the limits were kept. */
import { setImmediate } from "node:timers/promises";

import { OTHER_APP } from "../telemetry/events.ts";
import type { OriginName } from "../interface/resources.ts";
import { instantOf, LONGEST_ARRIVAL_MS, type LedgerLine, type LedgerReader } from "./ledger-line.ts";
import { measure } from "./rolling-maximum.ts";
import type { RateWindow } from "./rate-window.ts";

/** Ways to group the rows of a report. */
export const USAGE_GROUPINGS = ["app", "resource", "hour"] as const;
type UsageGrouping = (typeof USAGE_GROUPINGS)[number];

/** The period and the grouping of a report. Epoch milliseconds: `from` is in the period, `to` is not. */
export interface UsageQuery {
  readonly from: number;
  readonly to: number;
  readonly by: UsageGrouping;
}

export interface UsageOptions extends UsageQuery {
  readonly windows: Readonly<Record<OriginName, readonly RateWindow[]>>;
  readonly ledger: LedgerReader;
}

/**
 * Counts of upstream calls by how they ended, in the order of a report's columns. `failed`: there was no usable answer.
 * `uncompleted`: still in flight, or the process died before the end was recorded.
 */
const SEND_COUNTS = ["sends", "2xx", "3xx", "4xx", "5xx", "failed", "uncompleted"] as const;
type SendCounts = Record<(typeof SEND_COUNTS)[number], number>;

/** The upstream calls of a period. A `Date` becomes ISO 8601 in JSON. */
export type UsageReport = Awaited<ReturnType<typeof reportUsage>>;

/** Reads a period of the ledger. Rejects with `StoreUnavailable` if it cannot be read. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export async function reportUsage(options: UsageOptions) {
  const { ledger, windows, by, from, to } = options;
  const totals = noCounts();
  const rows = new Map<string, SendCounts>();
  const calls = { api: new Map<string, number[]>(), images: new Map<string, number[]>() };

  function count(line: LedgerLine): void {
    const instant = Math.floor(instantOf(line));
    const alike = calls[line.origin].get(line.limits) ?? [];
    calls[line.origin].set(line.limits, alike);
    alike.push(instant);
    if (instant < from || to <= instant) return;
    const key = keyOf(line, instant, by);
    const row = rows.get(key) ?? noCounts();
    rows.set(key, row);
    for (const counts of [totals, row]) {
      counts.sends++;
      counts[classOf(line)]++;
    }
  }

  const longestMs = Math.max(0, ...[...windows.api, ...windows.images].map(({ windowMs }) => windowMs));
  // The windows must be full when the period begins, and a call counts from its arrival.
  for await (const lines of ledger.read(from - longestMs - LONGEST_ARRIVAL_MS, to)) {
    for (const line of lines) if (line.completion?.status !== "unsent") count(line);
    // Serves waiting callers, because a long period takes time.
    await setImmediate();
  }
  // Read after the lines, because lines may have been dropped meanwhile.
  const { since: completeSince, hasLost } = await ledger.completeness();
  const unrecorded = ledger.unrecorded?.();
  const startsAt = from - longestMs;
  const hasUnrecorded =
    unrecorded !== undefined && unrecorded.since < to && unrecorded.until + LONGEST_ARRIVAL_MS > startsAt;
  const mayMiss = hasUnrecorded || (hasLost && startsAt < completeSince);

  const usageOf = (origin: OriginName, prefix: string) =>
    measure(calls[origin], windows[origin], options).map((usage) => ({
      ...usage,
      name: prefix + usage.name,
      reachedAt: usage.reachedAt === undefined ? null : new Date(usage.reachedAt),
      // Missing calls cannot turn a violated limit into a kept one.
      kept: usage.kept === true && mayMiss ? ("unknown" as const) : usage.kept,
    }));

  return {
    from: new Date(from),
    to: new Date(to),
    by,
    /** Present if the report needs lines from before, for its period or the longest window before it, and so may count too little. */
    ...(startsAt < completeSince && { completeSince: new Date(completeSince) }),
    /** Present if calls of the period, or of the longest window before it, may be missing. */
    ...(hasUnrecorded && {
      unrecorded: { since: new Date(unrecorded.since), until: new Date(unrecorded.until) },
    }),
    totals,
    /** The rows with calls, ordered by their first member: the app, the resource, or the hour's beginning, as `2026-11-21T07:00Z`. */
    rows: [...(by === "app" ? topApps(rows) : rows)]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, counts]) => ({ [by]: key, ...counts })),
    windows: [...usageOf("api", ""), ...usageOf("images", "images/")],
  };
}

/** The most apps that a report names, because callers can invent ids. */
const MOST_APPS = 100;

/** The apps with the most calls. The others are added to `other`. */
function topApps(rows: ReadonlyMap<string, SendCounts>): ReadonlyMap<string, SendCounts> {
  const named = [...rows]
    .filter(([app]) => app !== OTHER_APP)
    .sort(([, one], [, other]) => other.sends - one.sends);
  const other = { ...(rows.get(OTHER_APP) ?? noCounts()) };
  for (const [, counts] of named.splice(MOST_APPS))
    for (const name of SEND_COUNTS) other[name] += counts[name];
  return new Map(other.sends > 0 ? [...named, [OTHER_APP, other]] : named);
}

function noCounts(): SendCounts {
  return { sends: 0, "2xx": 0, "3xx": 0, "4xx": 0, "5xx": 0, failed: 0, uncompleted: 0 };
}

function keyOf(line: LedgerLine, instant: number, by: UsageGrouping): string {
  if (by !== "hour") return line[by];
  return `${new Date(instant).toISOString().slice(0, 13)}:00Z`;
}

function classOf({ completion }: LedgerLine): keyof SendCounts {
  if (completion === undefined) return "uncompleted";
  const { status } = completion;
  const name = typeof status === "number" ? `${Math.floor(status / 100)}xx` : "failed";
  return SEND_COUNTS.find((one) => one === name) ?? "failed";
}

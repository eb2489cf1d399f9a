/**
 * Counts the upstream calls of a period, and checks whether the limits were kept. Pure: the lines of the ledger are
 * passed in.
 */
import { OTHER_APP, type OriginName } from "../types.ts";
import { instantOf, LONGEST_ARRIVAL_MS, type LedgerGap, type LedgerLine } from "./ledger.ts";
import { createRollingMaxima, type RollingMaxima, type WindowUsage } from "./rolling-maxima.ts";
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
}

/**
 * Counts of upstream calls by how they ended, in the order of a report's columns. `failed`: there was no usable answer.
 * `uncompleted`: still in flight, or the process died before the end was recorded.
 */
export const SEND_COUNTS = ["sends", "2xx", "3xx", "4xx", "5xx", "failed", "uncompleted"] as const;
export type SendCounts = Readonly<Record<(typeof SEND_COUNTS)[number], number>>;

interface UsageRow extends SendCounts {
  /** The app, the resource, or the hour's beginning, as `2026-11-21T07:00Z`. */
  readonly key: string;
}

/** The upstream calls of a period. */
export interface Usage {
  readonly totals: SendCounts;
  /** The rows with calls, ordered by key. */
  readonly rows: readonly UsageRow[];
  readonly windows: readonly WindowUsage[];
}

export interface UsageAccumulator {
  /** Epoch milliseconds. Lines are needed from this instant, so that the windows are full when the period begins. */
  readonly readFrom: number;
  /** The windows are exact if no line counts an hour or more before the `at` of a line that was added earlier. */
  readonly add: (lines: readonly LedgerLine[]) => void;
  /** Called once, after the last line, with the gaps that concern the period (`gapsIn`). */
  readonly finish: (gaps?: readonly LedgerGap[]) => Usage;
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

const HOUR_MS = 3_600_000;

/** @returns an accumulator for the lines of the ledger. Add them piece by piece, oldest first. */
export function createUsage(options: UsageOptions): UsageAccumulator {
  const { windows, by, from, to } = options;
  const totals = noCounts();
  const rows = new Map<string, Mutable<SendCounts>>();
  const maxima = new Map<string, RollingMaxima>([
    ["api", createRollingMaxima(windows.api, options)],
    ["images", createRollingMaxima(windows.images, options)],
  ]);

  function countIn(line: LedgerLine, instant: number): void {
    const key = keyOf(line, instant, by);
    const row = rows.get(key) ?? noCounts();
    rows.set(key, row);
    for (const counts of [totals, row]) {
      counts.sends++;
      counts[classOf(line)]++;
    }
  }

  function usageOf(origin: OriginName, prefix: string, gaps: readonly LedgerGap[]): WindowUsage[] {
    const own = gaps.filter((gap) => gap.origin === origin);
    return (maxima.get(origin)?.finish() ?? []).map((usage, index) => {
      const reach = { from: from - (windows[origin][index]?.windowMs ?? 0), to };
      // Missing calls cannot turn a violated limit into a kept one.
      const kept = usage.kept === true && overlapping(own, reach).length > 0 ? null : usage.kept;
      return { ...usage, name: prefix + usage.name, kept };
    });
  }

  return {
    readFrom: from - longestWindowMs(options) - LONGEST_ARRIVAL_MS,
    add(lines) {
      for (const line of lines) {
        if (line.completion?.status === "unsent") continue;
        const instant = instantOf(line);
        if (from <= instant && instant < to) countIn(line, instant);
        maxima.get(line.origin)?.add(instant, line);
      }
    },
    finish: (gaps = []) => ({
      totals,
      rows: [...(by === "app" ? topApps(rows) : rows)]
        .sort(([one], [other]) => (one < other ? -1 : 1))
        .map(([key, counts]) => ({ key, ...counts })),
      windows: [...usageOf("api", "", gaps), ...usageOf("images", "images/", gaps)],
    }),
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

/** @returns the length of the longest window, in milliseconds. A report reads this far back before its period. */
export function longestWindowMs({ windows }: Pick<UsageOptions, "windows">): number {
  return Math.max(0, ...Object.values(windows).flatMap((some) => some.map(({ windowMs }) => windowMs)));
}

/** @returns the gaps in a period or in the longest window before it */
export function gapsIn(gaps: readonly LedgerGap[], options: Omit<UsageOptions, "by">): readonly LedgerGap[] {
  return overlapping(gaps, { from: options.from - longestWindowMs(options), to: options.to });
}

function overlapping(
  gaps: readonly LedgerGap[],
  { from, to }: Pick<UsageQuery, "from" | "to">,
): readonly LedgerGap[] {
  return gaps.filter((gap) => gap.from < to && gap.to > from);
}

function noCounts(): Mutable<SendCounts> {
  return { sends: 0, "2xx": 0, "3xx": 0, "4xx": 0, "5xx": 0, failed: 0, uncompleted: 0 };
}

function keyOf(line: LedgerLine, instant: number, by: UsageGrouping): string {
  if (by !== "hour") return line[by];
  return `${new Date(Math.floor(instant / HOUR_MS) * HOUR_MS).toISOString().slice(0, 16)}Z`;
}

function classOf({ completion }: LedgerLine): Exclude<keyof SendCounts, "sends"> {
  if (completion === undefined) return "uncompleted";
  switch (typeof completion.status === "number" ? Math.floor(completion.status / 100) : 0) {
    case 2:
      return "2xx";
    case 3:
      return "3xx";
    case 4:
      return "4xx";
    case 5:
      return "5xx";
    default:
      return "failed";
  }
}

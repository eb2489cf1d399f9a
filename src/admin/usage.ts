/** `GET /usage`: what was sent upstream in a period, and whether the limits were kept. */
import { z } from "zod";

import {
  SEND_COUNTS,
  type SendCounts,
  USAGE_GROUPINGS,
  type UsageQuery,
  type UsageReport,
} from "../usage/usage.ts";
import { type Endpoint, get, mistake, send } from "./endpoint.ts";

export interface UsageOptions {
  /** Rejects with `StoreUnavailable` if the ledger cannot be read. */
  readonly usage: (query: UsageQuery) => Promise<UsageReport>;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** The format overrides the `Accept` header, because a user cannot set headers in a browser. */
const QUERY = {
  from: z.string().optional(),
  to: z.string().optional(),
  by: z.enum(USAGE_GROUPINGS).default("app"),
  format: z.enum(["json", "csv"]).optional(),
};

export function usageEndpoints({ usage, now }: UsageOptions): Endpoint[] {
  return [
    get("/usage", QUERY, async ({ from, to, by, format }, request, response) => {
      const query = { ...periodIn({ from, to }, now()), by };
      const isCsv =
        format === undefined
          ? request.accepts(["application/json", "text/csv"]) === "text/csv"
          : format === "csv";
      const report = await usage(query);
      if (!isCsv) return jsonOf(query, report);
      return send(response, "text/csv; charset=utf-8; header=present", csvOf(by, report), { Vary: "Accept" });
    }),
  ];
}

const DAY_MS = 86_400_000;
const MS_PER_UNIT: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: DAY_MS };

const FORMS =
  "an instant with its offset (2026-11-21T07:00Z), a day (2026-11-21), a time ago (-24h, -7d), or epoch seconds";

function periodIn(
  given: { from?: string | undefined; to?: string | undefined },
  now: number,
): { from: number; to: number } {
  const instant = (name: "from" | "to"): number | undefined => {
    const text = given[name];
    if (text === undefined) return undefined;
    const at = instantIn(text, now);
    if (at === undefined || at < 0) throw mistake(`The parameter ${name} must be ${FORMS}.`);
    return at;
  };
  const to = instant("to") ?? now;
  const from = instant("from") ?? to - DAY_MS;
  if (from >= to) throw mistake("The parameter from must be before to.");
  return { from, to };
}

/**
 * Reads an instant. A day means its beginning in UTC.
 * @param text the decoded parameter. If the plus sign of an offset was not encoded, it is a space here.
 * @returns epoch milliseconds; `undefined` if the text is not an instant
 */
function instantIn(text: string, now: number): number | undefined {
  const [, count, unit = ""] = /^-(\d{1,9})([smhd])$/.exec(text) ?? [];
  if (count !== undefined) return now - Number(count) * (MS_PER_UNIT[unit] ?? Number.NaN);
  // Only these lengths, because `2026` and `20261121` are dates, not epoch seconds.
  if (/^(?:0|\d{9,11})$/.test(text)) return Number(text) * 1_000;
  const encoded = text.toUpperCase().replace(/ (?=\d{2}:\d{2}$)/, "+");
  const written = encoded.replace(/(T\d{2}:\d{2})(?=Z|[+-])/, "$1:00");
  const isInstant = z.union([z.iso.date(), z.iso.datetime({ offset: true })]).safeParse(written).success;
  return isInstant ? Date.parse(written) : undefined;
}

function jsonOf(
  { from, to, by }: UsageQuery,
  { totals, rows, windows, completeSince, unrecorded }: UsageReport,
): object {
  return {
    from: isoTime(from),
    to: isoTime(to),
    by,
    ...(completeSince !== undefined && { completeSince: isoTime(completeSince) }),
    ...(unrecorded && {
      unrecorded: { since: isoTime(unrecorded.since), until: isoTime(unrecorded.until) },
    }),
    totals: countsOf(totals),
    rows: rows.map((row) => ({ [by]: row.key, ...countsOf(row) })),
    windows: windows.map(({ name, limit, maximum, reachedAt, kept, limits }) => ({
      name,
      limit,
      maximum,
      reachedAt: reachedAt === undefined ? null : isoTime(reachedAt),
      kept,
      ...(limits && { limits: limits.map((one) => one ?? null) }),
    })),
  };
}

function isoTime(at: number): string {
  return new Date(at).toISOString();
}

function countsOf(counts: SendCounts): object {
  return Object.fromEntries(SEND_COUNTS.map((name) => [name, counts[name]]));
}

/**
 * The rows as CSV (RFC 4180). A spreadsheet cannot read any cell as a formula: a resource or an hour is none, and the id
 * of an app (`apps[].id`) contains no `=`, `+`, `@`, parenthesis, quote or separator.
 */
function csvOf(by: UsageQuery["by"], { rows }: UsageReport): string {
  const lines = [
    [by, ...SEND_COUNTS],
    ...rows.map((row) => [row.key, ...SEND_COUNTS.map((name) => row[name])]),
  ];
  return lines.map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

function cell(value: string | number): string {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

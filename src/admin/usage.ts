/**
 * `GET /usage`: what was sent upstream in a period, and whether the limits were kept.
 */
import express, { type Request, type Router } from "express";

import {
  SEND_COUNTS,
  type SendCounts,
  USAGE_GROUPINGS,
  type UsageQuery,
  type UsageReport,
} from "../usage/usage.ts";
import { PERIOD_PARAMETERS } from "./callers.ts";
import { readOnly } from "./guard.ts";
import { type AdminParameter, parametersOf, periodIn } from "./parameters.ts";

export interface AdminUsageOptions {
  /** Rejects with `StoreUnavailable` if the ledger cannot be read. */
  readonly usage: (query: UsageQuery) => Promise<UsageReport>;
  /** How many requests since the start of this process needed no call of their own, by reason. */
  readonly saved: () => Readonly<Record<string, number>>;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export function createAdminUsage(options: AdminUsageOptions): Router {
  const router = express.Router();
  router
    .route("/usage")
    .get(async (request, response) => {
      const parameters = parametersOf(request, USAGE_PARAMETERS);
      const query = queryIn(parameters, options.now());
      const asCsv = wantsCsv(request, parameters.get("format"));
      const report = await options.usage(query);
      response.set({ "Cache-Control": "no-store", Vary: "Accept" });
      if (asCsv) {
        response.setHeader("Content-Type", "text/csv; charset=utf-8; header=present");
        response.end(csvOf(query.by, report));
      } else {
        response.json({ ...jsonOf(query, report), savedSinceStart: options.saved() });
      }
    })
    .all(readOnly);
  return router;
}

const FORMATS = ["json", "csv"];

export const USAGE_PARAMETERS: readonly AdminParameter[] = [
  ...PERIOD_PARAMETERS,
  { name: "by", meaning: "What each row sums up. By default app", example: "app", values: USAGE_GROUPINGS },
  { name: "format", meaning: "Overrides the Accept header", example: "csv", values: FORMATS },
];

function queryIn(parameters: ReadonlyMap<string, string>, now: number): UsageQuery {
  const { from, to } = periodIn(parameters, now);
  const by = USAGE_GROUPINGS.find((grouping) => grouping === parameters.get("by")) ?? "app";
  return { from, to, by };
}

/** The parameter overrides the `Accept` header, because a user cannot set headers in a browser. */
function wantsCsv(request: Request, format: string | undefined): boolean {
  if (format === undefined) return request.accepts(["application/json", "text/csv"]) === "text/csv";
  return format === "csv";
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
    windows: windows.map(windowOf),
  };
}

function windowOf({ name, limit, maximum, reachedAt, kept, limits }: UsageReport["windows"][number]): object {
  return {
    name,
    limit,
    maximum,
    reachedAt: reachedAt === undefined ? null : isoTime(reachedAt),
    kept,
    ...(limits && { limits: limits.map((one) => one ?? null) }),
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

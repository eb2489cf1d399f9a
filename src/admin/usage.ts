/** `GET /usage`: what was sent upstream in a period, and whether the limits were kept. */
import { z } from "zod";

import { parseQuantity } from "../config/settings/units.ts";
import { USAGE_GROUPINGS, type UsageQuery, type UsageReport } from "../usage/report.ts";
import { type Endpoint, get, mistake } from "./endpoint.ts";

/** Rejects with `StoreUnavailable` if the ledger cannot be read. */
export type Usage = (query: UsageQuery) => Promise<UsageReport>;

/** The format overrides the `Accept` header, because a user cannot set headers in a browser. */
const QUERY = {
  from: z.string().optional(),
  to: z.string().optional(),
  by: z.enum(USAGE_GROUPINGS).default("app"),
  format: z.enum(["json", "csv"]).optional(),
};

/** @param now epoch milliseconds */
export function usageEndpoint(usage: Usage, now: () => number): Endpoint {
  return get("/usage", QUERY, async ({ by, format, ...given }, request, response) => {
    const to = given.to === undefined ? now() : instantIn("to", given.to, now());
    const from = given.from === undefined ? to - DAY_MS : instantIn("from", given.from, now());
    if (from >= to) throw mistake("The parameter from must be before to.");
    const report = await usage({ from, to, by });
    if ((format ?? request.accepts(["json", "csv"])) !== "csv") return report;
    return response.vary("Accept").type("text/csv; charset=utf-8; header=present").send(csvOf(report));
  });
}

const DAY_MS = 86_400_000;

const FORMS =
  "an instant with its offset (2026-11-21T07:00Z), a day (2026-11-21), a time ago (-24h, -7d), or epoch seconds";

/**
 * Reads an instant. A day means its beginning in UTC.
 * @param text the decoded parameter. If the plus sign of an offset was not encoded, it is a space here.
 * @returns epoch milliseconds
 */
function instantIn(name: string, text: string, now: number): number {
  const [, ago] = /^-(\d{1,9}[smhd])$/.exec(text) ?? [];
  const encoded = text.toUpperCase().replace(/ (?=\d{2}:\d{2}$)/, "+");
  const written = encoded.replace(/(T\d{2}:\d{2})(?=Z|[+-])/, "$1:00");
  let at = Number.NaN;
  if (ago !== undefined) at = now - parseQuantity(ago);
  // Only these lengths, because `2026` and `20261121` are dates, not epoch seconds.
  else if (/^(?:0|\d{9,11})$/.test(text)) at = Number(text) * 1_000;
  else if (INSTANT.safeParse(written).success) at = Date.parse(written);
  if (at >= 0) return at;
  throw mistake(`The parameter ${name} must be ${FORMS}.`);
}

const INSTANT = z.union([z.iso.date(), z.iso.datetime({ offset: true })]);

/**
 * The rows as CSV (RFC 4180). No cell needs quotes, and a spreadsheet cannot read any cell as a formula: a resource or an
 * hour is none, and the id of an app (`apps[].id`) contains no `=`, `+`, `@`, parenthesis, quote or separator.
 */
function csvOf({ by, totals, rows }: UsageReport): string {
  const lines = [[by, ...Object.keys(totals)], ...rows.map((row) => Object.values(row))];
  return lines.map((cells) => `${cells.join(",")}\r\n`).join("");
}

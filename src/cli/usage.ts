import { type Command, Option } from "commander";

import { addAdminOptions, type AdminClient, type AdminOptions, createAdminClient } from "./admin-client.ts";
import { print, printJson, table } from "./print.ts";

/** The period of a report. */
export interface Period {
  readonly from?: string;
  readonly to?: string;
}

interface UsageOptions extends AdminOptions, Period {
  readonly by: string;
}

export const INSTANT_HELP = "2026-11-21T07:00Z, 2026-11-21, -24h, -7d or epoch seconds";

/** `usage`: the upstream calls in a period. */
export function addUsage(program: Command): void {
  const command = program
    .command("usage")
    .description("show the calls to the property API in a period, and whether the limits were kept")
    .option("--from <instant>", `start: ${INSTANT_HELP} (default: 24 hours before the end)`)
    .option("--to <instant>", "end (default: now)")
    .addOption(
      new Option("--by <what>", "what each row sums up").choices(["app", "resource", "hour"]).default("app"),
    )
    .action(async ({ by, ...options }: UsageOptions) => {
      const usage = await readUsage(createAdminClient(options), by, options);
      if (options.json) return printJson(usage);
      printPeriod(usage);
      print();
      print(rowsTable(usage));
      print();
      print(windowsTable(usage));
    });
  addAdminOptions(command);
}

const COUNTS = ["sends", "2xx", "3xx", "4xx", "5xx", "failed", "uncompleted"] as const;
type Counts = Readonly<Record<(typeof COUNTS)[number], number>>;

/** An answer of `GET /usage`. */
export interface Usage {
  readonly from: string;
  readonly to: string;
  readonly by: string;
  readonly completeSince?: string;
  readonly totals: Counts;
  readonly rows: readonly (Counts & Readonly<Record<string, string | number>>)[];
  readonly windows: readonly {
    readonly name: string;
    readonly limit: number | null;
    readonly maximum: number;
    readonly reachedAt: string | null;
    /** `unknown`: calls are missing that may have exceeded the limit. */
    readonly kept: boolean | "unknown";
  }[];
  readonly unrecorded?: { readonly since: string; readonly until: string };
}

export function readUsage(client: AdminClient, by: string, { from, to }: Period): Promise<Usage> {
  return client.get<Usage>("/usage", { by, from, to });
}

/** Prints the period, and whether the ledger covers all of it. */
export function printPeriod({ from, to, completeSince, unrecorded }: Usage): void {
  print(`Period  ${from} to ${to}`);
  if (completeSince !== undefined) {
    print(`The ledger is complete only since ${completeSince}. There may have been more calls before.`);
  }
  if (unrecorded !== undefined)
    print(`Calls from ${unrecorded.since} to ${unrecorded.until} are missing: the disk was full.`);
}

/** @returns a row for each app, resource or hour, and the total */
export function rowsTable({ by, rows, totals }: Usage): string {
  const counts = (row: Counts): number[] => COUNTS.map((name) => row[name]);
  return table(
    [by, ...COUNTS],
    [...rows.map((row) => [row[by], ...counts(row)]), ["total", ...counts(totals)]],
  );
}

/** @returns the highest rolling windows against their limits */
export function windowsTable({ windows }: Usage): string {
  return table(
    ["window", "limit", "highest", "reached at", "kept"],
    windows.map(({ name, limit, maximum, reachedAt, kept }) => [
      name,
      limit,
      maximum,
      reachedAt,
      kept === "unknown" ? kept : kept ? "yes" : "NO",
    ]),
  );
}

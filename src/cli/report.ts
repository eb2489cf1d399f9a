import type { Command } from "commander";

import { addAdminOptions, type AdminOptions, createAdminClient } from "./admin-client.ts";
import { inWords, print, printJson, SCOPES, table } from "./print.ts";
import { INSTANT_HELP, type Period, printPeriod, readUsage, rowsTable, windowsTable } from "./usage.ts";

/** An answer of `GET /callers`. */
interface Callers {
  readonly scope: keyof typeof SCOPES;
  readonly processes: number;
  readonly since: string;
  readonly completeSince: string;
  readonly ages: {
    readonly answers: number;
    readonly oldestSeconds: number;
    readonly groups: readonly { readonly upToSeconds: number | null; readonly answers: number }[];
  };
  readonly apps: readonly {
    readonly app: string;
    readonly isListed: boolean;
    readonly identifiedBy: string;
    readonly userAgent: string | null;
    readonly firstSeenAt: string;
  }[];
}

/** @returns a sentence about the processes that counted, and since when */
function countedBy({ scope, processes, since, completeSince }: Callers): string {
  const missing =
    since === completeSince ? "" : ` Counts of processes that ended before ${completeSince} are missing.`;
  return `Counted by ${SCOPES[scope]} (${processes}) since ${since}.${missing}`;
}

/** `report`: a report that an operator can send to the owner of the property API. */
export function addReport(program: Command): void {
  const command = program
    .command("report")
    .description("print a report for the owner of the property API: calls, highest rolling windows, apps")
    .option("--from <instant>", `start: ${INSTANT_HELP}`, "-30d")
    .option("--to <instant>", "end (default: now)")
    .action(report);
  addAdminOptions(command);
}

async function report(options: AdminOptions & Period): Promise<void> {
  const client = createAdminClient(options);
  const byApp = await readUsage(client, "app", options);
  // The other requests name the period of the first one, so that all sections cover the same period.
  const byResource = await readUsage(client, "resource", { from: byApp.from, to: byApp.to });
  const callers = await client.get<Callers>("/callers", { from: byApp.from, to: byApp.to });
  const { ages, apps } = callers;
  if (options.json) {
    const { from, to, completeSince, unrecorded, totals, windows } = byApp;
    const { scope, processes, since } = callers;
    const known = { scope, processes, since, completeSince: callers.completeSince };
    return printJson({
      from,
      to,
      ...(completeSince !== undefined && { completeSince }),
      ...(unrecorded !== undefined && { unrecorded }),
      totals,
      windows,
      byApp: byApp.rows,
      byResource: byResource.rows,
      identification: { ...known, apps },
      cacheAges: { ...known, ...ages },
    });
  }
  print("Calls to the property API");
  printPeriod(byApp);
  const sections = [
    ["Calls by resource", rowsTable(byResource)],
    ["Highest rolling windows against their limits", windowsTable(byApp)],
    ["Calls by app", rowsTable(byApp)],
    ["How the apps identify themselves", `${countedBy(callers)}\n\n${appsTable(apps)}`],
    ["Ages of the cached answers", `${countedBy(callers)}\n\n${agesTable(ages)}`],
  ] as const;
  for (const [title, text] of sections) print(`\n${title}\n\n${text}`);
}

function appsTable(apps: Callers["apps"]): string {
  return table(
    ["app", "listed", "identified by", "User-Agent", "first seen"],
    apps.map(({ app, isListed, identifiedBy, userAgent, firstSeenAt }) => [
      app,
      isListed ? "yes" : "no",
      identifiedBy,
      userAgent,
      firstSeenAt,
    ]),
  );
}

function agesTable({ answers, oldestSeconds, groups }: Callers["ages"]): string {
  if (answers === 0) return "No cached answers were served.";
  const rows = groups.map(({ upToSeconds, answers: count }) => [
    upToSeconds === null ? "older" : `up to ${inWords(upToSeconds * 1_000)}`,
    count,
    `${((100 * count) / answers).toFixed(1)} %`,
  ]);
  return `${table(["age", "answers", "part"], rows)}\nThe oldest one was ${inWords(oldestSeconds * 1_000)} old.`;
}

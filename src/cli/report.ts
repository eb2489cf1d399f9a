import type { Command } from "commander";

import { addAdminOptions, type AdminOptions, createAdminClient } from "./admin-client.ts";
import { print, printJson } from "./print.ts";
import { INSTANT_HELP, type Period, printPeriod, readUsage, rowsTable, windowsTable } from "./usage.ts";

/** What the gateway does not record is said and not guessed. */
const IDENTIFICATION =
  "An app is named where its X-App-Id, or else the first product of its User-Agent, is listed in the settings. " +
  "All others are counted together as `other`; what they sent is not recorded.";
const CACHE_AGES =
  "The ages of the answers served from the cache are not recorded. The settings bound them (cache.maxAgeEver).";

/** `report`: what one would send to the owner of the property API. */
export function addReport(program: Command): void {
  const command = program
    .command("report")
    .description("a report for the owner of the property API: calls, highest rolling windows, apps")
    .option("--from <instant>", `begin: ${INSTANT_HELP}`, "-30d")
    .option("--to <instant>", "end (default: now)")
    .action(report);
  addAdminOptions(command);
}

async function report(options: AdminOptions & Period): Promise<void> {
  const client = createAdminClient(options);
  const byApp = await readUsage(client, "app", options);
  // Both tables are of the same period, although time goes on.
  const byResource = await readUsage(client, "resource", { from: byApp.from, to: byApp.to });
  if (options.json) {
    const { from, to, completeSince, totals, windows } = byApp;
    return printJson({
      from,
      to,
      ...(completeSince !== undefined && { completeSince }),
      totals,
      windows,
      byApp: byApp.rows,
      byResource: byResource.rows,
      identification: { recorded: "listed apps only", note: IDENTIFICATION },
      cacheAges: { recorded: false, note: CACHE_AGES },
    });
  }
  print("Calls to the property API");
  printPeriod(byApp);
  const sections = [
    ["Calls by resource", rowsTable(byResource)],
    ["Highest rolling windows against their limits", windowsTable(byApp)],
    ["Calls by app", rowsTable(byApp)],
    ["How the apps identify themselves", IDENTIFICATION],
    ["Ages of cached answers", CACHE_AGES],
  ] as const;
  for (const [title, text] of sections) print(`\n${title}\n\n${text}`);
}

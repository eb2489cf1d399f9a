import { readSettings } from "../config/load.ts";
import { identityOf } from "../identity.ts";
import { systemClock } from "../process/clock.ts";
import { openDatabase } from "../sqlite/database.ts";
import { LAYOUT } from "../sqlite/layout.ts";
import { adopt } from "../sqlite/owner.ts";

/**
 * `npm run adopt-data`: makes DATA_DIR the data of the account in the settings, whoever it belonged to. The calls in its
 * ledger go on counting against the budget; its cached answers are dropped. Exit code 1 if it cannot be done.
 */
export async function main(): Promise<void> {
  const config = readSettings()?.first.config;
  if (config === undefined) return;
  const { dataDir } = config;
  if (dataDir === null) return fail("DATA_DIR is not set.");
  const warn = (message: string): void => void process.stderr.write(`${message}\n`);
  try {
    const database = openDatabase({ directory: dataDir, layout: LAYOUT, now: systemClock.now(), warn });
    if (database === undefined) return fail(`The data in ${dataDir} cannot be opened.`);
    adopt(database, identityOf(config.upstream));
    database.close();
  } catch (error) {
    return fail(`${dataDir}: ${error instanceof Error ? error.message : String(error)}`);
  }
  process.stdout.write(
    `${dataDir} now belongs to the account in the settings. Cached answers were dropped.\n`,
  );
}

function fail(message: string): void {
  process.stderr.write(`${message}\n`);
  process.exitCode = 1;
}

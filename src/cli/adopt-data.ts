import type { Command } from "commander";

import { CommandFailure } from "./exit.ts";
import { addSettingOptions, environmentWith, type SettingOptions } from "./settings-options.ts";

/**
 * `adopt-data`: assigns DATA_DIR to the account in the settings, also if it belongs to another one. The calls in its ledger
 * still count against the budget; its cached answers are dropped. Exit code 1 if that fails.
 */
export function addAdoptData(program: Command): void {
  const command = program
    .command("adopt-data")
    .description("assign DATA_DIR to the account in the settings")
    .action(adoptData);
  addSettingOptions(command, ["config"]);
}

async function adoptData(options: SettingOptions): Promise<void> {
  const { readSettings } = await import("../config/load.ts");
  const config = readSettings(environmentWith(options))?.first.config;
  if (config === undefined) return;
  const { dataDir } = config;
  if (dataDir === null) throw new CommandFailure("DATA_DIR is not set.");
  const { identityOf } = await import("../identity.ts");
  const { openDatabase } = await import("../sqlite/database.ts");
  const { LAYOUT } = await import("../sqlite/layout.ts");
  const { adopt } = await import("../sqlite/owner.ts");
  const warn = (message: string): void => void process.stderr.write(`${message}\n`);
  const failure = (error: unknown): CommandFailure =>
    new CommandFailure(`${dataDir}: ${error instanceof Error ? error.message : String(error)}`);
  try {
    const database = openDatabase({ directory: dataDir, layout: LAYOUT, warn });
    adopt(database, identityOf(config.upstream));
    database.close();
  } catch (error) {
    throw failure(error);
  }
  process.stdout.write(
    `${dataDir} now belongs to the account in the settings. Cached answers were dropped.\n`,
  );
}

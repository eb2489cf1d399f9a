import type { Environment } from "../config/env.ts";
import { readSettings } from "../config/load.ts";
import { dataOwnerOf } from "../config/data-owner.ts";
import { openDatabase } from "../sqlite/database.ts";
import { adopt } from "../sqlite/owner.ts";
import { CommandFailure } from "./exit.ts";
import { print } from "./print.ts";

/**
 * Assigns DATA_DIR to the account in the settings, also if it belongs to another one. The calls in its ledger still count
 * against the budget; its cached answers are dropped.
 */
export function adoptData(env: Environment): void {
  const config = readSettings(env)?.first.config;
  if (config === undefined) return;
  const { dataDir } = config;
  if (dataDir === null) throw new CommandFailure("DATA_DIR is not set.");
  try {
    const warn = (message: string): void => void process.stderr.write(`${message}\n`);
    openDatabase(dataDir, warn, (database) => adopt(database, dataOwnerOf(config.upstream))).close();
  } catch (error) {
    throw new CommandFailure(`${dataDir}: ${error instanceof Error ? error.message : String(error)}`);
  }
  print(`${dataDir} now belongs to the account in the settings. Cached answers were dropped.`);
}

import type { Environment } from "../config/env.ts";
import { openSettings } from "../config/load.ts";
import { dataOwnerOf } from "../config/data-owner.ts";
import { openDatabase } from "../sqlite/database.ts";
import { adopt } from "../sqlite/owner.ts";
import { CommandFailure } from "./exit.ts";
import { print } from "./print-table.ts";

/**
 * Assigns DATA_DIR to the account in the settings, also if it belongs to another one. The calls in its ledger still count
 * against the budget; its cached answers are dropped.
 */
export function adoptData(env: Environment): void {
  const { dataDir, upstream } = openSettings({ env }).first.config;
  if (dataDir === null) throw new CommandFailure("DATA_DIR is not set.");
  openDatabase(dataDir, (database) => adopt(database, dataOwnerOf(upstream))).close();
  print(`${dataDir} now belongs to the account in the settings. Cached answers were dropped.`);
}

/** Checks the settings that a start would use, and lists where each value comes from. */
import { readWarmItems } from "../cache/warm-list.ts";
import type { Environment } from "../config/env.ts";
import { examineConfig, type ExaminedConfig } from "../config/load.ts";
import { report } from "../config/report.ts";
import { CommandFailure } from "./exit.ts";
import { print } from "./print-table.ts";

/** @returns the settings of a start, and all mistakes in them, those of the warm list, too */
export function examine(env: Environment): { examined: ExaminedConfig; mistakes: readonly string[] } {
  const examined = examineConfig({ env });
  const warm = examined.usable && readWarmItems(examined.usable.settings);
  return { examined, mistakes: [...examined.problems, ...(warm?.problems ?? [])] };
}

export function checkConfig(env: Environment): void {
  const { examined, mistakes } = examine(env);
  if (mistakes.length > 0) throw new CommandFailure(mistakes.join("\n"));
  print(report(examined).join("\n"));
}

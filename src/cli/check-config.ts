import { readFileSync } from "node:fs";

import type { Command } from "commander";

import { EXIT } from "./exit.ts";
import { print } from "./print.ts";
import { addSettingOptions, environmentWith, type SettingOptions } from "./settings-options.ts";

/** `check-config`: checks the settings that a start would use. Exit code 1 if a start would fail. */
export function addCheckConfig(program: Command): void {
  const command = program
    .command("check-config")
    .alias("config-check")
    .description("check the settings that a start would use, and list where each value comes from")
    .action(checkConfig);
  addSettingOptions(command, ["config"]);
}

async function checkConfig(options: SettingOptions): Promise<void> {
  const { examineConfig } = await import("../config/load.ts");
  const { report } = await import("../config/report.ts");
  const { readWarmItems } = await import("../warm-list.ts");
  const readFile = (path: string): string => readFileSync(path, "utf8");
  const examined = examineConfig({ env: environmentWith(options), readFile });
  const warm = examined.usable && readWarmItems(examined.usable.settings);
  const problems = [...examined.problems, ...(warm?.problems ?? [])];
  if (problems.length === 0) print(report(examined).join("\n"));
  else {
    process.stderr.write(`${problems.join("\n")}\n`);
    process.exitCode = EXIT.failed;
  }
}

/** Checks the settings that a start would use, and lists where each value comes from. */
import { readFileSync } from "node:fs";

import type { Environment } from "../config/env.ts";
import { examineConfig } from "../config/load.ts";
import { report } from "../config/report.ts";
import { readWarmItems } from "../cache/warm-list.ts";
import { CommandFailure } from "./exit.ts";
import { print } from "./print.ts";

export function checkConfig(env: Environment): void {
  const readFile = (path: string): string => readFileSync(path, "utf8");
  const examined = examineConfig({ env, readFile });
  const warm = examined.usable && readWarmItems(examined.usable.settings);
  const problems = [...examined.problems, ...(warm?.problems ?? [])];
  if (problems.length > 0) throw new CommandFailure(problems.join("\n"));
  print(report(examined).join("\n"));
}

import { readFileSync } from "node:fs";

import { checkWarmList } from "../warm-list.ts";
import { examineConfig } from "../config/load.ts";
import { report } from "../config/report.ts";
import { processEnvironment } from "../config/env.ts";

/** `npm run config:check`: checks the settings a start would use. Exit code 1 where it would refuse. */
export async function main(): Promise<void> {
  const readFile = (path: string): string => readFileSync(path, "utf8");
  const examined = examineConfig({ env: processEnvironment(), readFile });
  const problems = [...examined.problems, ...checkWarmList(examined.readable, readFile)];
  if (problems.length === 0) process.stdout.write(`${report(examined).join("\n")}\n`);
  else {
    process.stderr.write(`${problems.join("\n")}\n`);
    process.exitCode = 1;
  }
}

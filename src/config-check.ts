import { readFileSync } from "node:fs";

import { warmItems } from "./draw-warm.ts";
import { ConfigError, examineConfig } from "./platform/config.ts";
import { report } from "./platform/config-report.ts";
import { processEnvironment } from "./platform/environment.ts";

/** `npm run config:check`: checks the settings a start would use. Exit code 1 where it would refuse. */
export async function main(): Promise<void> {
  const readFile = (path: string): string => readFileSync(path, "utf8");
  const examined = examineConfig({ env: processEnvironment(), readFile });
  const { config } = examined;
  const problems = config
    ? warmProblems(() => warmItems(config, readFile, { ...config.query, isSecret: () => false }))
    : examined.problems;
  if (problems.length === 0) process.stdout.write(`${report(examined).join("\n")}\n`);
  else {
    process.stderr.write(`${problems.join("\n")}\n`);
    process.exitCode = 1;
  }
}

function warmProblems(read: () => unknown): readonly string[] {
  try {
    read();
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

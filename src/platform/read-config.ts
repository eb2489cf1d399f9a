import { readFileSync } from "node:fs";

import { type Config, ConfigError, loadConfig } from "./config.ts";
import { type Environment, processEnvironment } from "./environment.ts";

/**
 * Reads the process' settings.
 * @returns `undefined`, with the problems on standard error and exit code 1 set, where they cannot be used
 */
export function readConfig(env: Environment = processEnvironment()): Config | undefined {
  try {
    return loadConfig({ env, readFile: (path) => readFileSync(path, "utf8") });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
    return undefined;
  }
}

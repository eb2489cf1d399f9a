import { readFileSync } from "node:fs";

import { type Config, ConfigError, type ConfigInput, examineConfig, type ExaminedConfig } from "./config.ts";
import type { ReadableSettings } from "./cross-check.ts";
import { type Environment, processEnvironment } from "./environment.ts";
import type { ReadSettings } from "./setting-changes.ts";

/** Settings to run with. */
export interface UsableSettings extends ReadSettings {
  readonly config: Config;
}

/** Where the settings come from, and what was there at first. */
export interface SettingsSource {
  readonly first: UsableSettings;
  /** Reads the files again. Never throws: what is wrong is in its problems. */
  readonly reread: () => ExaminedConfig;
  /** Reads a file that the settings name as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
}

/** Finds mistakes in what the settings name, as far as those could be read; a line for each. */
type CheckAlso = (settings: ReadableSettings, readFile: ConfigInput["readFile"]) => readonly string[];

/**
 * @param checkAlso is asked where the settings have mistakes, so that all are told at once
 * @throws {ConfigError} with every problem there is
 */
export function openSettings(input: ConfigInput, checkAlso: CheckAlso = () => []): SettingsSource {
  const examined = examineConfig(input);
  const first = usableIn(examined);
  if (first === undefined) {
    const others = checkAlso(examined.readable, input.readFile);
    throw new ConfigError([...examined.problems, ...others]);
  }
  return { first, reread: () => examineConfig(input), readFile: input.readFile };
}

/** @returns `undefined` where there are problems */
export function usableIn({ config, settings, written }: ExaminedConfig): UsableSettings | undefined {
  return config && settings && { config, settings, written };
}

/**
 * Reads the process' settings.
 * @param checkAlso as in {@link openSettings}
 * @returns `undefined`, with the problems on standard error and exit code 1 set, where they cannot be used
 */
export function readSettings(
  env: Environment = processEnvironment(),
  checkAlso?: CheckAlso,
): SettingsSource | undefined {
  try {
    return openSettings({ env, readFile: (path) => readFileSync(path, "utf8") }, checkAlso);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
    return undefined;
  }
}

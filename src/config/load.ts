/**
 * Loads the settings: the defaults, then the file that `CONFIG_FILE` names, then the environment. A later source wins.
 */
import { readFileSync } from "node:fs";

import { checkCombinations } from "./combinations.ts";
import { type Config, ConfigError, toConfig } from "./config.ts";
import { CONSTANTS, type Constants } from "./constants.ts";
import { CONFIG_FILE, type Environment, processEnvironment, readEnvironment } from "./env.ts";
import { describeMistake, maskSecrets } from "./report.ts";
import { DEFAULTS, type Settings } from "./schema.ts";
import { readSecrets, type SecretValues } from "./secrets/secrets.ts";
import { type Assignment, mergeSources, type SettingSources } from "./sources.ts";
import { tracingProblems } from "./tracing.ts";
import { validateSettings } from "./validate.ts";
import { readSettingsFile, type SettingsFile } from "./yaml-file.ts";

/** Where the settings come from. */
export interface ConfigInput {
  readonly env: Environment;
  /** Reads a file as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
  /** Tests and benches pass others. */
  readonly constants?: Constants;
}

/** The settings, their problems, and the source of each setting. */
export interface ExaminedConfig {
  /** Absent if there are problems. */
  readonly usable?: UsableSettings;
  /** The sections without a mistake; none if the settings file could not be read. */
  readonly readable: Partial<Settings>;
  /** One line for each problem. */
  readonly problems: readonly string[];
  readonly file: SettingsFile | undefined;
  readonly sources: SettingSources;
  readonly assignments: readonly Assignment[];
}

/** Valid settings. */
export interface UsableSettings {
  readonly config: Config;
  readonly settings: Settings;
  readonly constants: Constants;
  readonly secrets: SecretValues;
  /** The secrets that environment variables hold, by the name of the variable. */
  readonly given: ReadonlyMap<string, string>;
  /** The settings as they are written, from all sources. */
  readonly written: Readonly<Record<string, unknown>>;
}

/** Loads the settings and reports all problems instead of throwing. */
export function examineConfig({ env, readFile, constants = CONSTANTS }: ConfigInput): ExaminedConfig {
  const { assignments, given, problems: ofEnvironment } = readEnvironment(env);
  const path = env[CONFIG_FILE];
  const file = path ? readSettingsFile(path, `environment variable ${CONFIG_FILE}`, readFile) : undefined;
  const unreadable = file?.problems ?? [];
  const sources = mergeSources(DEFAULTS, file, assignments);
  const { readable, mistakes } = validateSettings(sources);
  const secrets = readSecrets({ settings: readable, given, readFile });
  const all = [...mistakes, ...secrets.mistakes, ...checkCombinations(readable, sources, given)];
  // A missing setting may be in the file that could not be read.
  const reported = unreadable.length > 0 ? all.filter(({ isMissing }) => isMissing !== true) : all;
  const problems = [
    ...unreadable,
    ...ofEnvironment,
    ...tracingProblems(env),
    ...reported.map((mistake) => describeMistake(mistake, sources)),
  ].map((line) => maskSecrets(line, given.values()));
  const examined = { problems, file, sources, assignments };
  if (problems.length > 0 || !isComplete(readable))
    return { ...examined, readable: unreadable.length > 0 ? {} : readable };
  const config = toConfig(readable, secrets.values, constants);
  const usable = {
    config,
    settings: readable,
    constants,
    secrets: secrets.values,
    given,
    written: sources.merged,
  };
  return { ...examined, readable, usable };
}

/** Without mistakes, every section is there. */
function isComplete(settings: Partial<Settings>): settings is Settings {
  return Object.keys(DEFAULTS).every((name) => Object.hasOwn(settings, name));
}

/** Valid settings, and how to load them again. */
export interface SettingsSource {
  readonly first: UsableSettings;
  /** Loads the settings again. Never throws: the result contains the problems. */
  readonly reread: () => ExaminedConfig;
  /** Reads a file that the settings name as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
  /** The path of the settings file, if there is one. */
  readonly file: string | undefined;
}

/** @throws {ConfigError} with every problem */
export function openSettings(input: ConfigInput): SettingsSource {
  const { usable, problems } = examineConfig(input);
  if (!usable) throw new ConfigError(problems);
  const { env, readFile } = input;
  return { first: usable, reread: () => examineConfig(input), readFile, file: env[CONFIG_FILE] };
}

/**
 * Reads the settings of this process.
 * @returns `undefined` for invalid settings; then the problems are on standard error, and the exit code is set to 1
 */
export function readSettings(env: Environment = processEnvironment()): SettingsSource | undefined {
  try {
    return openSettings({ env, readFile: (path) => readFileSync(path, "utf8") });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
    return undefined;
  }
}

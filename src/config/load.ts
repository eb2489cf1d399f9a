/**
 * Loads the settings: the defaults, then the file that `CONFIG_FILE` names, then the environment. A later source wins.
 */
import { readFileSync } from "node:fs";

import { validateSettings, type SettingFault } from "./validate.ts";
import { type Config, ConfigError, toConfig } from "./config.ts";
import { CONSTANTS, type Constants } from "./constants.ts";
import { checkCombinations } from "./combinations.ts";
import { CONFIG_FILE, type Environment, processEnvironment, readEnvironment } from "./env.ts";
import { describeConflict, describeFault, maskSecrets } from "./report.ts";
import { DEFAULTS, type Settings } from "./schema.ts";
import { readSecrets, type SecretValues } from "./secrets/secrets.ts";
import { type Assignment, mergeSources } from "./sources.ts";
import { tracingProblems } from "./tracing.ts";
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
  readonly overlay?: SettingsFile;
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
  const { assignments, given, problems } = readEnvironment(env);
  const overlay = env[CONFIG_FILE]
    ? readSettingsFile(env[CONFIG_FILE], `environment variable ${CONFIG_FILE}`, readFile)
    : undefined;
  const unreadable = overlay?.problems ?? [];
  const sources = mergeSources(DEFAULTS, overlay, assignments);
  const { readable, faults } = validateSettings(sources);
  const secrets = readSecrets({ settings: readable, given, readFile });
  // A missing setting may be in the file that could not be read.
  const mayBeMissing = unreadable.length > 0;
  const isReported = (fault: SettingFault): boolean => !(mayBeMissing && fault.kind === "missing");
  const lines = [
    ...unreadable,
    ...problems,
    ...tracingProblems(env),
    ...faults.filter(isReported).map((fault) => describeFault(fault, sources)),
    ...[...secrets.problems, ...(mayBeMissing ? [] : checkCombinations(readable, sources, given))].map(
      (conflict) => describeConflict(conflict, sources),
    ),
  ].map((line) => maskSecrets(line, [...given.values()]));
  const examined = { problems: lines, ...(overlay && { overlay }), assignments };
  if (lines.length > 0 || !isComplete(readable))
    return { ...examined, readable: mayBeMissing ? {} : readable };
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

/** Without faults, every section is there. */
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
  return {
    first: usable,
    reread: () => examineConfig(input),
    readFile: input.readFile,
    file: input.env[CONFIG_FILE],
  };
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

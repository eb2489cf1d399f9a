/**
 * Loads the settings: the defaults, then the file that `CONFIG_FILE` names, then the environment. A later source wins.
 */
import { readFileSync } from "node:fs";

import { checkSettings, type SettingFault } from "./check.ts";
import { type Config, ConfigError, toConfig } from "./config.ts";
import { crossCheck } from "./cross-check.ts";
import { defaultSettings } from "./default-file.ts";
import { CONFIG_FILE, type Environment, processEnvironment, readEnvironment } from "./env.ts";
import { describeConflict, describeFault, maskSecrets } from "./report.ts";
import { type ReadableSettings, type Settings, settingsSchema } from "./schema.ts";
import { resolveSecrets } from "./secrets.ts";
import { type Assignment, isMapping, mergeSources } from "./sources.ts";
import { tracingProblems } from "./tracing.ts";
import { readSettingsFile, type SettingsFile } from "./yaml-file.ts";

/** Where the settings come from. */
export interface ConfigInput {
  readonly env: Environment;
  /** Reads a file as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
}

/** The settings, what is wrong with them, and which source set what. */
export interface ExaminedConfig {
  /** Absent where there are problems. */
  readonly usable?: UsableSettings;
  /** All settings that could be read, whatever is wrong with the rest; none if the settings file could not be read. */
  readonly readable: ReadableSettings;
  /** A line for each. */
  readonly problems: readonly string[];
  readonly defaultFile: string;
  readonly overlay?: SettingsFile;
  readonly assignments: readonly Assignment[];
}

/** Valid settings. */
export interface UsableSettings {
  readonly config: Config;
  readonly settings: Settings;
  /** As people write them, all sources merged. Holds secrets. */
  readonly written: unknown;
}

/** @throws {ConfigError} with every problem there is */
export function loadConfig(input: ConfigInput): Config {
  const { usable, problems } = examineConfig(input);
  if (!usable) throw new ConfigError(problems);
  return usable.config;
}

/** Loads the settings and reports all problems instead of throwing. */
export function examineConfig({ env, readFile }: ConfigInput): ExaminedConfig {
  const { assignments, problems } = readEnvironment(env);
  const defaults = defaultSettings();
  const overlay = env[CONFIG_FILE]
    ? readSettingsFile(env[CONFIG_FILE], `environment variable ${CONFIG_FILE}`, readFile)
    : undefined;
  const unreadable = overlay?.problems ?? [];
  // A setting that seems to be missing may be in the file that could not be read.
  const mayBeMissing = unreadable.length === 0;
  const sources = mergeSources(defaults, overlay, assignments);
  const faults: SettingFault[] = [];
  const checked = checkSettings(settingsSchema, sources.merged, [], faults);
  const settings = isReadable(checked) ? checked : {};
  const resolved = resolveSecrets(settings, faults, sources, readFile, mayBeMissing);
  const lines = [
    ...unreadable,
    ...problems,
    ...tracingProblems(env),
    ...faults
      .filter((fault) => mayBeMissing || fault.kind !== "missing")
      .map((fault) => describeFault(fault, sources)),
    ...resolved.problems,
    ...crossCheck(settings, sources).map((conflict) => describeConflict(conflict, sources)),
  ].map((line) => maskSecrets(line, sources.merged));
  const examined = {
    problems: lines,
    defaultFile: defaults.name,
    ...(overlay && { overlay }),
    assignments,
    readable: mayBeMissing ? settings : {},
  };
  if (lines.length > 0 || !resolved.secrets || !isComplete(settings, faults)) return examined;
  const config = toConfig(settings, resolved.secrets);
  return { ...examined, usable: { config, settings, written: sources.merged } };
}

/** The check returns the schema's form by construction. */
function isReadable(checked: unknown): checked is ReadableSettings {
  return isMapping(checked);
}

/** Without faults every setting was read. */
function isComplete(settings: ReadableSettings, faults: readonly SettingFault[]): settings is Settings {
  return isReadable(settings) && faults.length === 0;
}

/** Valid settings, and how to load them again. */
export interface SettingsSource {
  readonly first: UsableSettings;
  /** Loads them again. Never throws: the result holds the problems. */
  readonly reread: () => ExaminedConfig;
  /** Reads a file that the settings name as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
}

/** Finds mistakes in files that the settings name, as far as those settings could be read; a line for each. */
type CheckAlso = (settings: ReadableSettings, readFile: ConfigInput["readFile"]) => readonly string[];

/**
 * @param checkAlso is called if the settings have mistakes, so that the error holds all mistakes at once
 * @throws {ConfigError} with every problem there is
 */
export function openSettings(input: ConfigInput, checkAlso: CheckAlso = () => []): SettingsSource {
  const { usable, readable, problems } = examineConfig(input);
  if (!usable) throw new ConfigError([...problems, ...checkAlso(readable, input.readFile)]);
  return { first: usable, reread: () => examineConfig(input), readFile: input.readFile };
}

/**
 * Reads the settings of this process.
 * @param checkAlso as in {@link openSettings}
 * @returns `undefined` for invalid settings, with the problems on standard error and exit code 1 set
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

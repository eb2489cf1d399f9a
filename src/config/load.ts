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

/** The settings, their problems, and the source of each setting. */
export interface ExaminedConfig {
  /** Absent if there are problems. */
  readonly usable?: UsableSettings;
  /** All settings without a mistake; none if the settings file could not be read. */
  readonly readable: ReadableSettings;
  /** One line for each problem. */
  readonly problems: readonly string[];
  readonly defaultFile: string;
  readonly overlay?: SettingsFile;
  readonly assignments: readonly Assignment[];
}

/** Valid settings. */
export interface UsableSettings {
  readonly config: Config;
  readonly settings: Settings;
  /** The settings as they are written, from all sources. Contains secrets. */
  readonly written: unknown;
}

/** @throws {ConfigError} with every problem */
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
  // A missing setting may be in the file that could not be read.
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

/** The check returns the form of the schema. */
function isReadable(checked: unknown): checked is ReadableSettings {
  return isMapping(checked);
}

/** Without faults, every setting was read. */
function isComplete(settings: ReadableSettings, faults: readonly SettingFault[]): settings is Settings {
  return isReadable(settings) && faults.length === 0;
}

/** Valid settings, and how to load them again. */
export interface SettingsSource {
  readonly first: UsableSettings;
  /** Loads the settings again. Never throws: the result contains the problems. */
  readonly reread: () => ExaminedConfig;
  /** Reads a file that the settings name as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
}

/** @returns one line for each mistake in the files that the readable settings name */
type CheckAlso = (settings: ReadableSettings, readFile: ConfigInput["readFile"]) => readonly string[];

/**
 * @param checkAlso is called if the settings have mistakes, so that the error lists all mistakes together
 * @throws {ConfigError} with every problem
 */
export function openSettings(input: ConfigInput, checkAlso: CheckAlso = () => []): SettingsSource {
  const { usable, readable, problems } = examineConfig(input);
  if (!usable) throw new ConfigError([...problems, ...checkAlso(readable, input.readFile)]);
  return { first: usable, reread: () => examineConfig(input), readFile: input.readFile };
}

/**
 * Reads the settings of this process.
 * @param checkAlso as in {@link openSettings}
 * @returns `undefined` for invalid settings; then the problems are on standard error, and the exit code is set to 1
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

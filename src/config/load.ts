/**
 * Loads the settings: the defaults, then the file that `CONFIG_FILE` names, then the environment. A later source wins.
 */
import { readFileSync } from "node:fs";

import { checkCombinations } from "./combinations.ts";
import { ConfigError, toConfig } from "./config.ts";
import { CONSTANTS, type Constants } from "./timeouts-and-limits.ts";
import { CONFIG_FILE, type Environment, maskSecrets, processEnvironment, readEnvironment } from "./env.ts";
import { DEFAULTS, type Settings } from "./settings.ts";
import { createPrivateKeys } from "./secrets/key-rotation.ts";
import { readSecrets } from "./secrets/read-secret-files.ts";
import { secretsIn } from "./secrets/secret.ts";
import { describeMistake, mergeSources } from "./sources.ts";
import { readTracing } from "./tracing.ts";
import { validateSettings } from "./validate.ts";
import { readSettingsFile } from "./yaml-file.ts";

/** Where the settings come from. */
export interface ConfigInput {
  readonly env: Environment;
  /** Reads a file as UTF-8 text, or throws. Tests and benches pass others. */
  readonly readFile?: (path: string) => string;
  /** Tests and benches pass others. */
  readonly constants?: Constants;
}

const readText = (path: string): string => readFileSync(path, "utf8");

export type ExaminedConfig = ReturnType<typeof examineConfig>;
/** Valid settings. */
export type UsableSettings = NonNullable<ExaminedConfig["usable"]>;

/** Loads the settings and reports all problems instead of throwing. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function examineConfig({ env, readFile = readText, constants = CONSTANTS }: ConfigInput) {
  const { assignments, problems: ofEnvironment } = readEnvironment(env);
  const path = env[CONFIG_FILE];
  const file = path ? readSettingsFile(path, `environment variable ${CONFIG_FILE}`, readFile) : undefined;
  const unreadable = file?.problems ?? [];
  const sources = mergeSources(DEFAULTS, file, assignments);
  const { readable: settings, mistakes } = validateSettings(sources);
  const { values: secrets, mistakes: ofSecrets } = readSecrets({ settings, env, readFile });
  // If a file cannot be read, most settings are unknown.
  const reported =
    unreadable.length > 0 ? [] : [...mistakes, ...ofSecrets, ...checkCombinations(settings, sources, env)];
  const problems = [
    ...unreadable,
    ...ofEnvironment,
    ...readTracing(env).problems,
    ...reported.map((mistake) => describeMistake(mistake, sources)),
  ].map((line) => maskSecrets(line, env));
  const usable =
    problems.length === 0 && isComplete(settings)
      ? { config: toConfig(settings, secrets, constants), settings, constants, secrets, env, sources }
      : undefined;
  return {
    /** One line for each problem. */
    problems,
    /** The sections without a mistake. If the settings file could not be read, it counts as empty. */
    readable: settings,
    /** The secrets and certificates that these sections name, as far as their files can be read. */
    secrets,
    sources,
    /** Absent if there are problems. */
    usable,
  };
}

/** Without mistakes, every section is there. */
function isComplete(settings: Partial<Settings>): settings is Settings {
  return Object.keys(DEFAULTS).every((name) => Object.hasOwn(settings, name));
}

export type SettingsSource = ReturnType<typeof openSettings>;

/**
 * @returns valid settings, and how to load them again
 * @throws {ConfigError} with every problem
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function openSettings(input: ConfigInput) {
  const { usable: first, problems } = examineConfig(input);
  if (!first) throw new ConfigError(problems);
  return {
    first,
    /** The private keys, and every secret to mask. */
    keys: createPrivateKeys(first.config.upstream.privateKey, secretsIn(first.config)),
    /** Loads the settings again. Never throws: the result contains the problems. */
    reread: (): ExaminedConfig => examineConfig(input),
    /** Reads a file that the settings name as UTF-8 text, or throws. */
    readFile: input.readFile ?? readText,
    /** The path of the settings file, if there is one. */
    file: input.env[CONFIG_FILE],
  };
}

/**
 * Reads the settings of this process.
 * @returns `undefined` for invalid settings; then the problems are on standard error, and the exit code is set to 1
 */
export function readSettings(env: Environment = processEnvironment()): SettingsSource | undefined {
  try {
    return openSettings({ env });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
    return undefined;
  }
}

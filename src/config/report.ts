/**
 * Messages about settings: one line for each mistake, or the source of each setting.
 */
import { settingWarnings } from "./combinations.ts";
import { type Environment, SECRET_VARIABLES } from "./env.ts";
import type { ExaminedConfig } from "./load.ts";
import { SETTINGS } from "./settings.ts";
import { SECRET_TEXT } from "./secrets/secret.ts";
import { formatPath, type Mistake, type SettingPath, type SettingSources } from "./sources.ts";
import { describeValue } from "./validate.ts";

/** @returns one line that names the setting of a mistake, and its place */
export function describeMistake({ path, says }: Mistake, { nameOf, pathOf }: SettingSources): string {
  return path === undefined ? says : `${nameOf(path)}: ${pathOf(path)}: ${says}`;
}

/** Shorter secrets are not masked, because they could be part of ordinary words. */
const SHORTEST_MASKED = 6;

/** Masks the secrets of the environment in a line, because a secret may also be written in the wrong place. */
export function maskSecrets(line: string, env: Environment): string {
  return SECRET_VARIABLES.map((name) => env[name] ?? "")
    .filter((secret) => secret.length >= SHORTEST_MASKED)
    .reduce((masked, secret) => masked.replaceAll(secret, SECRET_TEXT), line);
}

/** @returns what `config:check` prints for valid settings: one line for each setting that is not at its default */
export function report({ sources, usable }: ExaminedConfig): string[] {
  const given = SECRET_VARIABLES.filter((name) => usable?.env[name]);
  return [
    "configuration is valid",
    "  All other settings have their defaults, which config/default.yaml shows.",
    ...sources.set.map(
      ({ source, path, value }) => `  ${source}: ${formatPath(path)} = ${show(path, value)}`,
    ),
    ...given.map((variable) => `  environment variable ${variable} = ${SECRET_TEXT}`),
    ...(usable ? settingWarnings(usable.config) : []).map((warning) => `  warning: ${warning}`),
  ];
}

function show(path: SettingPath, value: unknown): string {
  if (isSecret(formatPath(path)) && value !== null) return SECRET_TEXT;
  return Array.isArray(value) ? JSON.stringify(value) : describeValue(value);
}

/** @returns whether the value of this setting stays hidden even if the settings are valid */
export const isSecret = (setting: string): boolean =>
  SETTINGS.some(({ name, secret, holds }) => name === setting && secret === true && holds === undefined);

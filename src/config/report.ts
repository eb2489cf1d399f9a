/**
 * Where the settings come from, one line for each.
 */
import { settingWarnings } from "./combinations.ts";
import { SECRET_VARIABLES } from "./env.ts";
import type { ExaminedConfig } from "./load.ts";
import { SETTINGS } from "./settings.ts";
import { SECRET_TEXT } from "./secrets/secret.ts";
import { formatPath, type SettingPath } from "./sources.ts";
import { describeValue } from "./validate.ts";

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

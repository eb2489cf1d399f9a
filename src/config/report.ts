/**
 * Messages about settings: one line for each mistake, or the source of each setting.
 */
import { nearest } from "../interface/intended-name.ts";
import type { SettingFault } from "./validate.ts";

import { settingWarnings } from "./combinations.ts";
import type { Config } from "./config.ts";
import { SETTINGS } from "./schema.ts";
import type { SettingsFile } from "./yaml-file.ts";
import { SECRET_TEXT } from "./secrets/secret.ts";
import type { Conflict } from "./secrets/secrets.ts";
import { isSecret } from "./schema/setting.ts";
import { type Assignment, formatPath, leavesOf, type SettingPath, type SettingSources } from "./sources.ts";

const LONGEST_FOUND = 80;

/** @returns one line: the place of the setting, its name, the value that was found, and what was expected */
export function describeFault(fault: SettingFault, sources: SettingSources): string {
  const name = sources.pathOf(fault.path);
  const at = `${sources.nameOf(fault.path)}: ${name}`;
  switch (fault.kind) {
    case "missing": {
      const variable = SETTINGS.find((setting) => setting.name === name)?.env;
      if (!variable) return `${at}: missing; expected ${fault.expected}`;
      return `${name} is missing: set ${variable}, or ${name} in the configuration file; expected ${fault.expected}`;
    }
    case "unknown":
      return `${at}: unknown setting; ${hint(fault, sources)}`;
    case "removed":
      return `${at}: this setting no longer exists. ${fault.instead}`;
    case "wrong": {
      const found = fault.meta.secret ? SECRET_TEXT : describeValue(fault.value);
      return `${at}: found ${found}; expected ${fault.meta.expected}`;
    }
  }
}

function hint(
  { path, siblings }: Extract<SettingFault, { kind: "unknown" }>,
  sources: SettingSources,
): string {
  const key = String(path.at(-1));
  const section = sources.pathOf(path.slice(0, -1));
  const near = nearest(key, siblings);
  if (near) return `did you mean ${section === "" ? near : `${section}.${near}`}?`;
  const elsewhere = SETTINGS.filter((setting) => setting.path.at(-1) === key).map(({ name }) => name);
  if (elsewhere.length > 0) return `did you mean ${elsewhere.join(" or ")}?`;
  return `known ${section === "" ? "at the top level" : `in ${section}`}: ${siblings.join(", ")}`;
}

/** @returns one line that names all settings of a conflict */
export function describeConflict({ paths, explanation }: Conflict, sources: SettingSources): string {
  const places = paths.map((path) => `${sources.nameOf(path)}: ${sources.pathOf(path)}`).join(", ");
  return places === "" ? explanation : `${places}: ${explanation}`;
}

/** @returns a value in one line: quoted, shortened, and without the secret parts of a URL */
export function describeValue(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a section";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value !== "string") return typeof value;
  // This also matches URLs without a scheme: `user:password@host`.
  const shown = value.replace(/^(.*?:\/\/)?.*@/s, `$1${SECRET_TEXT}@`).replace(/\?.*$/s, "?…");
  return JSON.stringify(shown.length > LONGEST_FOUND ? `${shown.slice(0, LONGEST_FOUND)}…` : shown);
}

/** Shorter secrets are not masked, because they could be part of ordinary words. */
const SHORTEST_MASKED = 6;

/** Masks the secrets of the environment in a line, because a secret may also be written in the wrong place. */
export function maskSecrets(line: string, secrets: readonly string[]): string {
  return secrets
    .filter((secret) => secret.length >= SHORTEST_MASKED)
    .reduce((masked, secret) => masked.replaceAll(secret, SECRET_TEXT), line);
}

interface Reported {
  readonly overlay?: SettingsFile;
  readonly assignments: readonly Assignment[];
  readonly usable?: { readonly config: Config; readonly given: ReadonlyMap<string, string> };
}

/** @returns what `config:check` prints for valid settings: one line for each setting that is not at its default */
export function report({ overlay, assignments, usable }: Reported): string[] {
  const wins = new Set(assignments.map((assignment) => formatPath(assignment.path)));
  const inFile = leavesOf(overlay?.settings ?? {}).filter(([path]) => !wins.has(formatPath(path)));
  return [
    "configuration is valid",
    "  All other settings have their defaults, which config/default.yaml shows.",
    ...inFile.map(([path, value]) => {
      const parts = path.map((_, index) => path.slice(0, path.length - index));
      const line = parts.map((part) => overlay?.lineOf(part)).find((found) => found !== undefined);
      return `  ${overlay?.name}${line === undefined ? "" : `:${line}`}: ${formatPath(path)} = ${show(path, value)}`;
    }),
    ...assignments.map(
      ({ variable, path, value }) =>
        `  environment variable ${variable}: ${formatPath(path)} = ${show(path, value)}`,
    ),
    ...[...(usable?.given.keys() ?? [])].map(
      (variable) => `  environment variable ${variable} = ${SECRET_TEXT}`,
    ),
    ...(usable ? settingWarnings(usable.config) : []).map((warning) => `  warning: ${warning}`),
  ];
}

function show(path: SettingPath, value: unknown): string {
  if (isSecretAt(path) && value !== null) return SECRET_TEXT;
  return Array.isArray(value) ? JSON.stringify(value) : describeValue(value);
}

/** @returns whether the value at this path is never shown */
export function isSecretAt(path: SettingPath): boolean {
  const setting = SETTINGS.find(({ name }) => name === formatPath(path));
  return setting !== undefined && isSecret(setting);
}

/**
 * Messages about settings: one line for each mistake, or the source of each setting.
 */
import { relative } from "node:path";

import { nearest } from "../nearest.ts";
import type { SettingFault } from "./check.ts";
import { insteadOf } from "./removed.ts";
import type { Conflict } from "./cross-check.ts";
import type { ExaminedConfig } from "./load.ts";
import { SETTINGS } from "./schema.ts";
import { SECRET_TEXT } from "./secret.ts";
import { SECRET_PATHS } from "./secrets.ts";
import { isSecret } from "./setting.ts";
import { formatPath, hasPath, type SettingPath, type SettingSources, valueAt } from "./sources.ts";

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
    case "unknown": {
      const instead = insteadOf(name);
      if (instead !== undefined) return `${at}: this setting no longer exists. ${instead}`;
      return `${at}: unknown setting; ${hint(fault, sources)}`;
    }
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
  const places = paths.map((path) => `${sources.nameOf(path)}: ${sources.pathOf(path)}`);
  return `${places.join(", ")}: ${explanation}`;
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

/** Masks all secrets in a line, because a secret may also be written in the wrong place. */
export function maskSecrets(line: string, merged: unknown): string {
  return SECRET_PATHS.map((path) => valueAt(merged, path))
    .filter((secret) => typeof secret === "string" && secret.length >= SHORTEST_MASKED)
    .reduce((masked: string, secret) => masked.replaceAll(String(secret), SECRET_TEXT), line);
}

/** @returns what `config:check` prints for valid settings: one line for each setting that is not at its default */
export function report({ defaultFile, overlay, assignments }: ExaminedConfig): string[] {
  const lines = ["configuration is valid", `  defaults from ${relative(process.cwd(), defaultFile)}`];
  if (overlay) {
    const { settings } = overlay;
    const wins = new Set(assignments.map((assignment) => formatPath(assignment.path)));
    for (const path of writtenIn(settings).filter((written) => !wins.has(formatPath(written)))) {
      const line = overlay.lineOf(path);
      const source = line === undefined ? overlay.name : `${overlay.name}:${line}`;
      lines.push(`  ${source}: ${formatPath(path)} = ${show(path, valueAt(settings, path))}`);
    }
  }
  for (const { variable, path, value } of assignments) {
    lines.push(`  environment variable ${variable}: ${formatPath(path)} = ${show(path, value)}`);
  }
  return lines;
}

/** @returns each written setting; a section instead of its settings if one value or a list replaces them */
function writtenIn(settings: unknown): SettingPath[] {
  const written = new Map<string, SettingPath>();
  for (const { path } of SETTINGS) {
    const section = path.slice(0, -1);
    const value = section.length > 0 ? valueAt(settings, section) : undefined;
    const at = typeof value === "string" || Array.isArray(value) ? section : path;
    if (hasPath(settings, at)) written.set(formatPath(at), at);
  }
  return [...written.values()];
}

function show(path: SettingPath, value: unknown): string {
  const setting = SETTINGS.find(({ name }) => name === formatPath(path));
  if (setting && isSecret(setting) && value !== null) return SECRET_TEXT;
  return Array.isArray(value) ? JSON.stringify(value) : describeValue(value);
}

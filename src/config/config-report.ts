import { relative } from "node:path";

import { settingsSchema } from "./config-schema.ts";
import type { ExaminedConfig } from "./config.ts";
import { SECRET_TEXT } from "./secret.ts";
import { settingsOf } from "./setting-check.ts";
import { describeValue } from "./setting-faults.ts";
import { formatPath, hasPath, type SettingPath, valueAt } from "./setting-path.ts";
import { isSecret } from "./setting-shapes.ts";

/** @returns what the check says of valid settings: a line per setting that is not left at its default. */
export function report({ defaultFile, overlay, assignments }: ExaminedConfig): string[] {
  const files = [relative(process.cwd(), defaultFile), ...(overlay ? [overlay.name] : [])];
  const lines = ["configuration is valid", `  defaults from ${files[0] ?? defaultFile}`];
  if (overlay) {
    const { settings } = overlay;
    const wins = new Set(assignments.map((assignment) => formatPath(assignment.path)));
    for (const path of givenIn(settings).filter((given) => !wins.has(formatPath(given)))) {
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

/** What is set: each setting, and what stands for several at once. */
function givenIn(settings: unknown): SettingPath[] {
  const given = new Map<string, SettingPath>();
  for (const { path } of settingsOf(settingsSchema)) {
    const section = path.slice(0, -1);
    const isForAll = section.length > 0 && typeof valueAt(settings, section) === "string";
    const at = isForAll ? section : path;
    if (hasPath(settings, at)) given.set(formatPath(at), at);
  }
  return [...given.values()];
}

function show(path: SettingPath, value: unknown): string {
  const leaf = settingsOf(settingsSchema).find((setting) => formatPath(setting.path) === formatPath(path));
  if (leaf && isSecret(leaf.shape) && value !== null) return SECRET_TEXT;
  return Array.isArray(value) ? JSON.stringify(value) : describeValue(value);
}

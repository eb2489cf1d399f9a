/**
 * Merges the sources of settings (defaults, a file, the environment), and finds the source of each setting.
 */
import { DURATION_PATTERN } from "./schema/units.ts";

/** The place of a setting: keys of mappings and positions in lists. */
export type SettingPath = readonly (string | number)[];

/** @returns the path as people write it: `cache.ttl.sold`, `apps[2].id`. */
export function formatPath(path: SettingPath): string {
  return path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`))
    .join("")
    .replace(/^\./, "");
}

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @returns whether the path exists, even with an empty value (`key:`) */
function hasPath(root: unknown, path: SettingPath): boolean {
  const parent = valueAt(root, path.slice(0, -1));
  const last = path.at(-1);
  return typeof parent === "object" && parent !== null && last !== undefined && Object.hasOwn(parent, last);
}

/** @returns the value at the path; `undefined` if the path does not exist */
export function valueAt(root: unknown, path: SettingPath): unknown {
  let value = root;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = Reflect.get(value, part);
  }
  return value;
}

/** @returns every value that is no section. Lists are values, but items with an id are sections: `apps.listed.web.weight`. */
export function leavesOf(value: unknown, path: readonly string[] = []): [readonly string[], unknown][] {
  if (isMapping(value)) return Object.entries(value).flatMap(([key, part]) => leavesOf(part, [...path, key]));
  const items = Array.isArray(value) ? value : [];
  if (items.length === 0 || !items.every((item) => hasPath(item, ["id"]))) return [[path, value]];
  return items.flatMap((item) => leavesOf(item, [...path, String(valueAt(item, ["id"]))]));
}

/** A setting as an environment variable sets it. */
export interface Assignment {
  readonly variable: string;
  readonly path: SettingPath;
  readonly value: string | number | boolean;
}

/** The settings in a file. */
export interface SettingsLayer {
  readonly name: string;
  readonly settings: Readonly<Record<string, unknown>>;
  /** The line of a setting, from 1; `undefined` if it is not in this file. */
  readonly lineOf: (path: SettingPath) => number | undefined;
}

/** The settings of all sources together, and the source of each. */
export interface SettingSources {
  readonly merged: Readonly<Record<string, unknown>>;
  /** Whether the file has the setting. */
  readonly isInFile: (path: SettingPath) => boolean;
  /** Whether the file or the environment has the setting. */
  readonly isSet: (path: SettingPath) => boolean;
  /** The source of a setting for people: `environment variable PORT`, `gateway.yaml:12`. */
  readonly nameOf: (path: SettingPath) => string;
  /** The path as its source writes it: `apps[2].id` if the source has a plain list instead of `apps.listed`. */
  readonly pathOf: (path: SettingPath) => string;
}

/**
 * Merges the sources: the file wins over the defaults, and the environment over both. Mappings are merged key by key. All
 * other values, lists included, are replaced. One duration in place of a mapping of durations sets each of them:
 * `ttl: 5m` is the lifetime of every kind of answer. A list in place of a mapping with the key `listed` replaces that list:
 * `apps: [...]` means `apps: { listed: [...] }`.
 */
export function mergeSources(
  defaults: Readonly<Record<string, unknown>>,
  file: SettingsLayer | undefined,
  assignments: readonly Assignment[],
): SettingSources {
  // A copy, because `assign` writes into it.
  const merged = mergeMappings(structuredClone(defaults), file?.settings ?? {});
  for (const assignment of assignments) assign(merged, assignment);
  const asWritten = (path: SettingPath): SettingPath => withoutListed(path, file);
  const isInFile = (path: SettingPath): boolean => hasPath(file?.settings, asWritten(path));
  return {
    merged,
    isInFile,
    isSet: (path) =>
      isInFile(path) || assignments.some((assignment) => formatPath(assignment.path) === formatPath(path)),
    nameOf: (path) => sourceOf(asWritten(path), file, assignments),
    pathOf: (path) => formatPath(asWritten(path)),
  };
}

/** The key of a list that can be written directly in place of its section. */
const LISTED = "listed";

/** @returns the path without the key `listed` if the file has a plain list there */
function withoutListed(path: SettingPath, file: SettingsLayer | undefined): SettingPath {
  const [section = "", key, ...rest] = path;
  return key === LISTED && Array.isArray(valueAt(file?.settings, [section])) ? [section, ...rest] : path;
}

function merge(base: unknown, over: unknown): unknown {
  // An empty section (`server:`) changes nothing, because all its lines may be commented out.
  if (isMapping(base) && over === null) return base;
  if (isMapping(base) && isDuration(over) && Object.values(base).every(isDuration))
    return Object.fromEntries(Object.keys(base).map((key) => [key, over]));
  if (isMapping(base) && Array.isArray(over) && Array.isArray(base[LISTED]))
    return { ...base, [LISTED]: over };
  return isMapping(over) ? mergeMappings(isMapping(base) ? base : {}, over) : over;
}

function mergeMappings(
  base: Readonly<Record<string, unknown>>,
  over: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const merged = Object.entries(over).map(([key, value]) => [key, merge(valueAt(base, [key]), value)]);
  return { ...base, ...Object.fromEntries(merged) };
}

function isDuration(value: unknown): boolean {
  return typeof value === "string" && DURATION_PATTERN.test(value);
}

/** A section that is not a mapping stays as it is, so that the check refuses it. */
function assign(root: Record<string, unknown>, { path, value }: Assignment): void {
  const section = valueAt(root, path.slice(0, -1));
  const key = path.at(-1);
  if (isMapping(section) && key !== undefined) section[key] = value;
}

function sourceOf(
  path: SettingPath,
  file: SettingsLayer | undefined,
  assignments: readonly Assignment[],
): string {
  for (let length = path.length; length > 0; length -= 1) {
    const part = path.slice(0, length);
    const written = formatPath(part);
    const assignment = assignments.find((candidate) => formatPath(candidate.path) === written);
    if (assignment) return `environment variable ${assignment.variable}`;
    const line = file?.lineOf(part);
    if (file && line !== undefined) return `${file.name}:${line}`;
  }
  return file?.name ?? "default";
}

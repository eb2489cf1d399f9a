/**
 * Merges the sources of settings (defaults, a file, the environment), and finds the source of each setting.
 */
import { DURATION_PATTERN } from "./settings/units.ts";
import { isMapping, type SettingsFile } from "./yaml-file.ts";

/** The place of a setting: keys of mappings and positions in lists. */
export type SettingPath = readonly (string | number)[];

/** Something wrong with settings. */
export interface Mistake {
  /** The wrong setting; absent if `says` names what to set. */
  readonly path?: SettingPath;
  readonly says: string;
}

/** @returns the path as people write it: `cache.ttl.sold`, `apps[2].id`. */
export function formatPath(path: SettingPath): string {
  return path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`))
    .join("")
    .replace(/^\./, "");
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
  const ids = items.map((item) => valueAt(item, ["id"]));
  if (items.length === 0 || ids.includes(undefined)) return [[path, value]];
  return items.flatMap((item, index) => leavesOf(item, [...path, String(ids[index])]));
}

/** A setting as a source sets it. */
export interface Assignment {
  /** For people: `environment variable PORT`, `gateway.yaml:12`. */
  readonly source: string;
  readonly path: SettingPath;
  readonly value: unknown;
}

export type SettingSources = ReturnType<typeof mergeSources>;

/**
 * Merges the sources: the file wins over the defaults, and the environment over both. Mappings are merged key by key. All
 * other values, lists included, are replaced. One duration in place of a mapping of durations sets each of them:
 * `ttl: 5m` is the lifetime of every kind of answer. A list in place of a mapping with the key `listed` replaces that list:
 * `apps: [...]` means `apps: { listed: [...] }`.
 * @param environment what variables set
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function mergeSources(
  defaults: Readonly<Record<string, unknown>>,
  file: SettingsFile | undefined,
  environment: readonly Assignment[],
) {
  // A copy, because the assignments are written into it.
  const merged = mergeMappings(structuredClone(defaults), file?.settings ?? {});
  for (const { path, value } of environment) {
    // A section that is not a mapping stays as it is, so that the check refuses it.
    const section = valueAt(merged, path.slice(0, -1));
    const key = String(path.at(-1));
    if (isMapping(section)) section[key] = merge(section[key], value);
  }
  const variables = new Map(environment.map(({ path, source }) => [formatPath(path), source]));

  /** The path as its source writes it: `apps[2].id` if the source has a plain list instead of `apps.listed`. */
  function asWritten([section = "", key, ...rest]: SettingPath): SettingPath {
    const isPlainList = key === LISTED && Array.isArray(file?.settings[section]);
    return [section, ...(isPlainList || key === undefined ? [] : [key]), ...rest];
  }

  /** The source of a setting, or of the section around it. */
  function sourceOf(path: SettingPath): string {
    const variable = variables.get(formatPath(path));
    if (variable !== undefined) return variable;
    const line = file?.lineOf(path);
    if (line !== undefined) return `${file?.name}:${line}`;
    return path.length > 1 ? sourceOf(path.slice(0, -1)) : (file?.name ?? "default");
  }

  const inFile = leavesOf(file?.settings ?? {})
    .filter(([path]) => !variables.has(formatPath(path)))
    .map(([path, value]): Assignment => ({ source: sourceOf(path), path, value }));
  return {
    /** The settings as they are written, from all sources. */
    merged,
    /** What the file and the environment set. */
    set: [...inFile, ...environment],
    /** @returns the source of a setting for people */
    nameOf: (path: SettingPath): string => sourceOf(asWritten(path)),
    /** @returns the path for people, as its source writes it */
    pathOf: (path: SettingPath): string => formatPath(asWritten(path)),
  };
}

/** The key of a list that can be written directly in place of its section. */
const LISTED = "listed";

function merge(base: unknown, over: unknown): unknown {
  if (!isMapping(base)) return isMapping(over) ? mergeMappings({}, over) : over;
  // An empty section (`server:`) changes nothing, because all its lines may be commented out.
  if (over === null) return base;
  if (isDuration(over) && Object.values(base).every(isDuration))
    return Object.fromEntries(Object.keys(base).map((key) => [key, over]));
  if (Array.isArray(over) && LISTED in base) return { ...base, [LISTED]: over };
  return isMapping(over) ? mergeMappings(base, over) : over;
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

/** @returns one line that names the setting of a mistake, and its place */
export function describeMistake({ path, says }: Mistake, { nameOf, pathOf }: SettingSources): string {
  return path === undefined ? says : `${nameOf(path)}: ${pathOf(path)}: ${says}`;
}

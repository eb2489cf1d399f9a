import type { Assignment } from "./environment.ts";
import { formatPath, hasPath, isMapping, type SettingPath, valueAt } from "./setting-path.ts";
import type { SettingsFile } from "./settings-file.ts";
import { DURATION_PATTERN } from "./units.ts";

/** The settings of all sources together, and where each came from. */
export interface SettingSources {
  readonly merged: Readonly<Record<string, unknown>>;
  /** The source of a setting for people: `environment variable PORT`, `gateway.yaml:12`. */
  nameOf(path: SettingPath): string;
}

/**
 * Lays the sources over one another: defaults, then the overlay, then the environment. Mappings are
 * merged key by key; everything else, lists included, is replaced. One duration over a mapping of durations
 * stands for each of them: `ttl: 5m` for the same lifetime of every kind of answer.
 */
export function mergeSources(
  defaults: SettingsFile,
  overlay: SettingsFile | undefined,
  assignments: readonly Assignment[],
): SettingSources {
  const merged = mergeMappings(defaults.settings, overlay?.settings ?? {});
  for (const assignment of assignments) assign(merged, assignment);
  const files = overlay ? [overlay, defaults] : [defaults];
  return { merged, nameOf: (path) => sourceOf(path, assignments, files) };
}

function merge(base: unknown, over: unknown): unknown {
  // `server:` with nothing below it, as when all its lines are commented out, says nothing.
  if (isMapping(base) && over === null) return copy(base);
  if (isMapping(base) && isDuration(over) && Object.values(base).every(isDuration))
    return Object.fromEntries(Object.keys(base).map((key) => [key, over]));
  return isMapping(over) ? mergeMappings(isMapping(base) ? base : {}, over) : over;
}

function isDuration(value: unknown): boolean {
  return typeof value === "string" && DURATION_PATTERN.test(value);
}

function mergeMappings(
  base: Readonly<Record<string, unknown>>,
  over: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  // Every mapping is copied, because the environment is written into the result.
  const names = new Set([...Object.keys(base), ...Object.keys(over)]);
  const valueOf = (name: string): unknown =>
    Object.hasOwn(over, name) ? merge(own(base, name), over[name]) : copy(base[name]);
  return Object.fromEntries([...names].map((name) => [name, valueOf(name)]));
}

function copy(value: unknown): unknown {
  return isMapping(value) ? mergeMappings(value, {}) : value;
}

function own(mapping: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(mapping, name) ? mapping[name] : undefined;
}

/** A section that is not a mapping stays as it is, so that it is refused rather than papered over. */
function assign(root: Record<string, unknown>, { path, value }: Assignment): void {
  const section = valueAt(root, path.slice(0, -1));
  const key = path.at(-1);
  if (isMapping(section) && key !== undefined) section[key] = value;
}

function sourceOf(
  path: SettingPath,
  assignments: readonly Assignment[],
  files: readonly SettingsFile[],
): string {
  for (let length = path.length; length > 0; length -= 1) {
    const part = path.slice(0, length);
    const written = formatPath(part);
    const assignment = assignments.find((candidate) => formatPath(candidate.path) === written);
    if (assignment) return `environment variable ${assignment.variable}`;
    const file = files.find(
      ({ settings }) => hasPath(settings, part) || isDuration(valueAt(settings, part.slice(0, -1))),
    );
    const line = file?.lineOf(part) ?? file?.lineOf(part.slice(0, -1));
    if (file) return line === undefined ? file.name : `${file.name}:${line}`;
  }
  return files[0]?.name ?? "configuration";
}

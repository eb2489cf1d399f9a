/** Where a setting stands: keys of mappings and positions in lists. */
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

/** @returns whether anything, even nothing (`key:`), is written at the path. */
export function hasPath(root: unknown, path: SettingPath): boolean {
  return find(root, path).found;
}

/** @returns what is written at the path; `undefined` where nothing is. */
export function valueAt(root: unknown, path: SettingPath): unknown {
  return find(root, path).value;
}

function find(root: unknown, path: SettingPath): { found: boolean; value?: unknown } {
  let value = root;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return { found: false };
    value = Reflect.get(value, part);
  }
  return { found: true, value };
}

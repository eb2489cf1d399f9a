import * as z from "zod";

import { REMOVED } from "./schema/removed.ts";
import { type Settings, settingsSchema } from "./schema.ts";
import { metaOf, partsOf, type SettingMeta } from "./schema/setting.ts";
import { formatPath, isMapping, type SettingPath, type SettingSources, valueAt } from "./sources.ts";

/** A mistake in one setting. */
export type SettingFault = { readonly path: SettingPath } & (
  | { readonly kind: "missing"; readonly expected: string }
  | { readonly kind: "removed"; readonly instead: string }
  | { readonly kind: "unknown"; readonly siblings: readonly string[] }
  | { readonly kind: "wrong"; readonly value: unknown; readonly meta: SettingMeta }
);

const SECTION: SettingMeta = { expected: "a section with settings below it" };

/**
 * Checks every section separately.
 * @returns the sections without a mistake, and all mistakes
 */
export function validateSettings(sources: SettingSources): {
  readonly readable: Partial<Settings>;
  readonly faults: readonly SettingFault[];
} {
  const { merged, isInFile } = sources;
  const faults: SettingFault[] = [];
  const renamed = withKeys(settingsSchema, merged, [], faults);
  const readable = partsOf(settingsSchema).flatMap(({ key, shape }): [string, unknown][] => {
    const read = z.safeParse(shape, valueAt(renamed, [key]));
    if (read.success) return [[key, read.data]];
    const found = read.error.issues.map(({ path }) => faultAt([key, ...path], merged));
    faults.push(...new Map(found.map((fault) => [formatPath(fault.path), fault])).values());
    return [];
  });
  const removed = REMOVED.flatMap(({ path: name, instead }): SettingFault[] => {
    const path = name.split(".");
    return isInFile(path) ? [{ kind: "removed", path, instead }] : [];
  });
  // A removed setting is also unknown, and a section that is a list now is also wrong.
  const isRemoved = ({ path }: SettingFault): boolean =>
    removed.some((one) => `${formatPath(one.path)}.`.startsWith(`${formatPath(path)}.`));
  return {
    readable: Object.fromEntries(readable),
    faults: [...removed, ...faults.filter((fault) => !isRemoved(fault))],
  };
}

/** Gives settings the names that they have in `Config`. Reports unknown names, and omits them. */
function withKeys(shape: unknown, written: unknown, path: SettingPath, faults: SettingFault[]): unknown {
  if (shape instanceof z.ZodArray && Array.isArray(written))
    return written.map((item, index) => withKeys(shape.element, item, [...path, index], faults));
  if (!(shape instanceof z.ZodObject) || !isMapping(written)) return written;
  const parts = partsOf(shape);
  const siblings = parts.map(({ name }) => name);
  for (const name of Object.keys(written))
    if (!siblings.includes(name)) faults.push({ kind: "unknown", path: [...path, name], siblings });
  return Object.fromEntries(
    parts.map(({ key, name, shape: inner }) => [
      key,
      withKeys(inner, valueAt(written, [name]), [...path, name], faults),
    ]),
  );
}

/**
 * @param keys the path in `Config` of an issue that zod reports
 * @returns the fault, with the path that people write
 */
function faultAt(keys: readonly PropertyKey[], written: unknown): SettingFault {
  let shape: z.core.$ZodType = settingsSchema;
  const path: (string | number)[] = [];
  for (const key of keys) {
    if (shape instanceof z.ZodArray && typeof key === "number") {
      path.push(key);
      shape = shape.element;
      continue;
    }
    const part = shape instanceof z.ZodObject && partsOf(shape).find((one) => one.key === key);
    if (!part) break;
    path.push(part.name);
    shape = part.shape;
  }
  const meta = metaOf(shape) ?? SECTION;
  const value = valueAt(written, path);
  const isUnset = value === undefined || value === null || value === "";
  return isUnset && meta.required
    ? { kind: "missing", path, expected: meta.expected }
    : { kind: "wrong", path, value, meta };
}

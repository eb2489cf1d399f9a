import * as z from "zod";

import { REMOVED } from "./removed.ts";
import { type Settings, settingsSchema } from "./schema.ts";
import { metaOf, partsOf, type SettingMeta } from "./setting.ts";
import { formatPath, isMapping, type SettingPath, type SettingSources, valueAt } from "./sources.ts";

/** A mistake in one setting. */
export type SettingFault =
  | { readonly kind: "missing"; readonly path: SettingPath; readonly expected: string }
  | { readonly kind: "removed"; readonly path: SettingPath; readonly instead: string }
  | { readonly kind: "unknown"; readonly path: SettingPath; readonly siblings: readonly string[] }
  | {
      readonly kind: "wrong";
      readonly path: SettingPath;
      readonly value: unknown;
      readonly meta: SettingMeta;
    };

const SECTION: SettingMeta = { expected: "a section with settings below it" };

/**
 * Checks every section separately.
 * @param mayChangeFixed whether the file may also change what is declared as `fixed`
 * @returns the sections without a mistake, and all mistakes
 */
export function checkSettings(
  sources: SettingSources,
  mayChangeFixed: boolean,
): { readonly readable: Partial<Settings>; readonly faults: readonly SettingFault[] } {
  const { merged } = sources;
  const faults: SettingFault[] = [];
  const isUnknown = (path: SettingPath, isFixed: boolean): boolean =>
    isFixed && !mayChangeFixed && sources.isInFile(path);
  const renamed = withKeys(settingsSchema, merged, [], { faults, isUnknown });
  const readable = partsOf(settingsSchema).flatMap(({ key, name, shape }): [string, unknown][] => {
    const read = z.safeParse(shape, valueAt(renamed, [key]));
    if (read.success) return [[key, read.data]];
    const found = read.error.issues.map((issue) => faultAt(shape, issue.path, name, merged));
    const distinct = new Map(found.map((fault) => [formatPath(fault.path), fault]));
    faults.push(...distinct.values());
    return [];
  });
  const removed = mayChangeFixed ? [] : removedFrom(sources);
  // A removed setting is also unknown, and a section that is a list now is also wrong.
  const isKnown = ({ path }: SettingFault): boolean =>
    removed.some((one) => `${formatPath(one.path)}.`.startsWith(`${formatPath(path)}.`));
  return {
    readable: Object.fromEntries(readable),
    faults: [...removed, ...faults.filter((fault) => !isKnown(fault))],
  };
}

function removedFrom(sources: SettingSources): SettingFault[] {
  return REMOVED.flatMap(({ path: name, instead }): SettingFault[] => {
    const path = name.split(".");
    return sources.isInFile(path) ? [{ kind: "removed", path, instead }] : [];
  });
}

/** Gives settings the names that they have in `Config`. Reports unknown names, and omits them. */
function withKeys(
  shape: z.core.$ZodType,
  written: unknown,
  path: SettingPath,
  to: {
    readonly faults: SettingFault[];
    readonly isUnknown: (path: SettingPath, isFixed: boolean) => boolean;
  },
): unknown {
  if (shape instanceof z.ZodArray && Array.isArray(written))
    return written.map((item, index) => withKeys(shape.element, item, [...path, index], to));
  if (!(shape instanceof z.ZodObject) || !isMapping(written)) return written;
  const parts = partsOf(shape);
  const siblings = parts.flatMap(({ name, shape: inner }) => (metaOf(inner)?.isFixed ? [] : [name]));
  for (const name of Object.keys(written)) {
    const part = parts.find((candidate) => candidate.name === name);
    const at = [...path, name];
    if (part === undefined || to.isUnknown(at, metaOf(part.shape)?.isFixed ?? false))
      to.faults.push({ kind: "unknown", path: at, siblings });
  }
  return Object.fromEntries(
    parts.map(({ key, name, shape: inner }) => [
      key,
      withKeys(inner, valueAt(written, [name]), [...path, name], to),
    ]),
  );
}

/** @returns the fault that an issue of zod reports, with the path that people write */
function faultAt(
  section: z.core.$ZodType,
  keys: readonly PropertyKey[],
  name: string,
  written: unknown,
): SettingFault {
  let shape = section;
  const path: (string | number)[] = [name];
  for (const key of keys) {
    if (shape instanceof z.ZodArray && typeof key === "number") {
      path.push(key);
      shape = shape.element;
    } else if (shape instanceof z.ZodObject) {
      const part = partsOf(shape).find((candidate) => candidate.key === key);
      if (part === undefined) break;
      path.push(part.name);
      shape = part.shape;
    } else break;
  }
  const meta = metaOf(shape) ?? SECTION;
  const value = valueAt(written, path);
  const isUnset = value === undefined || value === null || value === "";
  if (isUnset && meta.required) return { kind: "missing", path, expected: meta.expected };
  return { kind: "wrong", path, value, meta };
}

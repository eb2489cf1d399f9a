import * as z from "zod";

import { metaOf, nameWithUnit, partsOf, type SettingMeta } from "./setting.ts";
import { isMapping, type SettingPath } from "./sources.ts";

/** A mistake in one setting. */
export type SettingFault =
  | { readonly kind: "missing"; readonly path: SettingPath; readonly expected: string }
  | { readonly kind: "unknown"; readonly path: SettingPath; readonly siblings: readonly string[] }
  | {
      readonly kind: "wrong";
      readonly path: SettingPath;
      readonly value: unknown;
      readonly meta: SettingMeta;
    };

const SECTION: SettingMeta = { expected: "a section with settings below it" };

/**
 * Checks every setting separately, so that one mistake does not hide the others.
 * @param shape the shape of a section, a list or a setting
 * @param value the written value
 * @param faults the function adds every mistake to this list
 * @returns the values, with units in their names; `undefined` for a value with a mistake
 */
export function checkSettings(
  shape: z.core.$ZodType,
  value: unknown,
  path: SettingPath,
  faults: SettingFault[],
): unknown {
  const meta = metaOf(shape) ?? SECTION;
  if (shape instanceof z.ZodObject && isMapping(value)) return checkSection(shape, value, path, faults);
  if (shape instanceof z.ZodArray && Array.isArray(value)) {
    return value.map((item, index) => checkSettings(shape.element, item, [...path, index], faults));
  }
  const read = z.safeParse(shape, value);
  if (read.success) return read.data;
  if (isUnset(value) && meta.required) faults.push({ kind: "missing", path, expected: meta.expected });
  else faults.push({ kind: "wrong", path, value, meta });
  return undefined;
}

function checkSection(
  shape: z.ZodObject,
  value: Record<string, unknown>,
  path: SettingPath,
  faults: SettingFault[],
): Record<string, unknown> {
  const siblings = Object.keys(shape.shape);
  for (const key of Object.keys(value).filter((key) => !siblings.includes(key))) {
    faults.push({ kind: "unknown", path: [...path, key], siblings });
  }
  return Object.fromEntries(
    partsOf(shape).map(([key, inner]) => [
      nameWithUnit(key, metaOf(inner)?.unit),
      checkSettings(inner, Object.hasOwn(value, key) ? value[key] : undefined, [...path, key], faults),
    ]),
  );
}

function isUnset(value: unknown): boolean {
  return value === undefined || value === null || value === "";
}

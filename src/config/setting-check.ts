import * as z from "zod";

import { isMapping, type SettingPath } from "./setting-path.ts";
import { metaOf, type SettingMeta } from "./setting-shapes.ts";

/** What can be wrong with one setting. */
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
 * Checks every setting by itself, so that a wrong one hides none of the others.
 * @param shape the shape of a section, a list or a setting
 * @param value what is written there
 * @param faults receives what is wrong
 * @returns what was read; what could not be read is `undefined`
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
      key,
      checkSettings(inner, Object.hasOwn(value, key) ? value[key] : undefined, [...path, key], faults),
    ]),
  );
}

/** Nothing is written, or nothing is said by what is. */
function isUnset(value: unknown): boolean {
  return value === undefined || value === null || value === "";
}

/** A setting that is neither a section nor part of a list's item. */
export interface SettingLeaf {
  readonly path: readonly string[];
  readonly shape: z.core.$ZodType;
}

/** @returns all settings below a section, in their order; lists are settings as a whole. */
export function settingsOf(shape: z.ZodObject, path: readonly string[] = []): SettingLeaf[] {
  return partsOf(shape).flatMap(([key, inner]): SettingLeaf[] =>
    inner instanceof z.ZodObject
      ? settingsOf(inner, [...path, key])
      : [{ path: [...path, key], shape: inner }],
  );
}

function partsOf(shape: z.ZodObject): [string, z.core.$ZodType][] {
  return Object.entries(shape.shape);
}

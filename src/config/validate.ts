import * as z from "zod";

import { nearest } from "../interface/intended-name.ts";
import { REMOVED } from "./settings/removed.ts";
import { type Settings, SETTINGS, settingsSchema } from "./settings.ts";
import { metaOf, nameOf, partsOf } from "./settings/setting.ts";
import { SECRET_TEXT } from "./secrets/secret.ts";
import { formatPath, type Mistake, type SettingPath, type SettingSources, valueAt } from "./sources.ts";
import { isMapping } from "./yaml-file.ts";

/**
 * Checks every section separately.
 * @returns the sections without a mistake, and all mistakes
 */
export function validateSettings({ merged, pathOf }: SettingSources): {
  readonly readable: Partial<Settings>;
  readonly mistakes: readonly Mistake[];
} {
  const removed = REMOVED.filter(({ path }) => valueAt(merged, path.split(".")) !== undefined);
  const mistakes: Mistake[] = removed.map(({ path, instead }) => ({
    path: path.split("."),
    says: `this setting no longer exists. ${instead}`,
  }));
  function report(path: SettingPath, mistake: Mistake): void {
    // A removed setting is also unknown, and a section that is a list now is also wrong.
    const isRemoved = removed.some((one) => `${one.path}.`.startsWith(`${formatPath(path)}.`));
    if (!isRemoved) mistakes.push(mistake);
  }

  /** Gives settings the names that they have in `Config`. Reports unknown names, and omits them. */
  function rename(shape: z.core.$ZodType, value: unknown, path: SettingPath): unknown {
    if (shape instanceof z.ZodArray && Array.isArray(value))
      return value.map((item, at) => rename(shape.element, item, [...path, at]));
    if (!(shape instanceof z.ZodObject) || !isMapping(value)) return value;
    const parts = partsOf(shape);
    const names = parts.map(({ name }) => name);
    for (const name of Object.keys(value)) {
      if (names.includes(name)) continue;
      const unknown = [...path, name];
      report(unknown, { path: unknown, says: `unknown setting; ${hint(name, pathOf(path), names)}` });
    }
    return Object.fromEntries(
      parts.map(({ key, name, shape: part }) => [key, rename(part, valueAt(value, [name]), [...path, name])]),
    );
  }

  const renamed = rename(settingsSchema, merged, []);
  const readable = Object.entries(settingsSchema.shape).flatMap(([key, shape]): [string, unknown][] => {
    const read = z.safeParse(shape, valueAt(renamed, [key]));
    if (read.success) return [[key, read.data]];
    const wrong = read.error.issues.map(({ path }) => [key, ...path].map(writtenName));
    for (const path of new Map(wrong.map((one) => [formatPath(one), one])).values())
      report(path, mistakeAt(path, valueAt(merged, path)));
    return [];
  });
  return { readable: Object.fromEntries(readable), mistakes };
}

function writtenName(part: PropertyKey): string | number {
  return typeof part === "number" ? part : nameOf(String(part));
}

function mistakeAt(path: SettingPath, value: unknown): Mistake {
  const meta = metaOf(shapeAt(settingsSchema, path)) ?? {};
  const { required, secret, env, expected = "a section with settings below it" } = meta;
  const isUnset = value === undefined || value === null || value === "";
  if (!isUnset || required !== true) {
    const found = secret === true ? SECRET_TEXT : describeValue(value);
    return { path, says: `found ${found}; expected ${expected}` };
  }
  const name = formatPath(path);
  if (env === undefined) return { path, says: `missing; expected ${expected}` };
  const says = `${name} is missing: set ${env}, or ${name} in the configuration file; expected ${expected}`;
  return { says };
}

function shapeAt(shape: z.core.$ZodType, [name, ...below]: SettingPath): z.core.$ZodType {
  if (name === undefined) return shape;
  if (shape instanceof z.ZodArray) return shapeAt(shape.element, below);
  const part = shape instanceof z.ZodObject ? partsOf(shape).find((one) => one.name === name) : undefined;
  return part === undefined ? shape : shapeAt(part.shape, below);
}

/** @param section has an unknown setting of this name */
function hint(name: string, section: string, known: readonly string[]): string {
  const near = nearest(name, known);
  if (near !== undefined) return `did you mean ${section === "" ? near : `${section}.${near}`}?`;
  const elsewhere = SETTINGS.filter((setting) => setting.path.at(-1) === name);
  if (elsewhere.length > 0) return `did you mean ${elsewhere.map((setting) => setting.name).join(" or ")}?`;
  return `known ${section === "" ? "at the top level" : `in ${section}`}: ${known.join(", ")}`;
}

const LONGEST_FOUND = 80;

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

import * as z from "zod";

import { nearest } from "../interface/intended-name.ts";
import { REMOVED } from "./schema/removed.ts";
import { type Settings, SETTINGS, settingsSchema } from "./schema.ts";
import { metaOf, partsOf, type SettingMeta } from "./schema/setting.ts";
import { SECRET_TEXT } from "./secrets/secret.ts";
import {
  formatPath,
  isMapping,
  type Mistake,
  type SettingPath,
  type SettingSources,
  valueAt,
} from "./sources.ts";

/** A value that was checked, with its name in the file. */
interface Checked {
  readonly path: SettingPath;
  readonly value: unknown;
  readonly meta: SettingMeta;
}

const SECTION: SettingMeta = { expected: "a section with settings below it" };

/**
 * Checks every section separately.
 * @returns the sections without a mistake, and all mistakes
 */
export function validateSettings({ merged, pathOf }: SettingSources): {
  readonly readable: Partial<Settings>;
  readonly mistakes: readonly Mistake[];
} {
  const mistakes: Mistake[] = [];
  /** By the path in `Config`, because zod reports this one. */
  const checked = new Map<string, Checked>();

  /** Gives settings the names that they have in `Config`. Reports unknown names, and omits them. */
  function rename(shape: z.core.$ZodType, value: unknown, path: SettingPath, keys: SettingPath): unknown {
    checked.set(formatPath(keys), { path, value, meta: metaOf(shape) ?? SECTION });
    if (shape instanceof z.ZodArray && Array.isArray(value))
      return value.map((item, at) => rename(shape.element, item, [...path, at], [...keys, at]));
    if (!(shape instanceof z.ZodObject) || !isMapping(value)) return value;
    const parts = partsOf(shape);
    const names = parts.map(({ name }) => name);
    for (const name of Object.keys(value))
      if (!names.includes(name))
        mistakes.push({
          paths: [[...path, name]],
          says: `unknown setting; ${hint(name, pathOf(path), names)}`,
        });
    return Object.fromEntries(
      parts.map(({ key, name, shape: inner }) => [
        key,
        rename(inner, valueAt(value, [name]), [...path, name], [...keys, key]),
      ]),
    );
  }

  const renamed = rename(settingsSchema, merged, [], []);
  const readable = Object.entries(settingsSchema.shape).flatMap(([key, shape]): [string, unknown][] => {
    const read = z.safeParse(shape, valueAt(renamed, [key]));
    if (read.success) return [[key, read.data]];
    const wrong = read.error.issues.map(({ path }) => {
      const keys = path.map((part) => (typeof part === "number" ? part : String(part)));
      return checked.get(formatPath([key, ...keys])) ?? checked.get(key);
    });
    for (const one of new Set(wrong)) if (one !== undefined) mistakes.push(mistakeIn(one));
    return [];
  });
  const removed = REMOVED.map(({ path, instead }) => ({ path: path.split("."), instead })).filter(
    ({ path }) => valueAt(merged, path) !== undefined,
  );
  // A removed setting is also unknown, and a section that is a list now is also wrong.
  const isRemoved = ({ paths: [path = []] }: Mistake): boolean =>
    removed.some((one) => `${formatPath(one.path)}.`.startsWith(`${formatPath(path)}.`));
  return {
    readable: Object.fromEntries(readable),
    mistakes: [
      ...removed.map(({ path, instead }) => ({
        paths: [path],
        says: `this setting no longer exists. ${instead}`,
      })),
      ...mistakes.filter((mistake) => !isRemoved(mistake)),
    ],
  };
}

function mistakeIn({ path, value, meta }: Checked): Mistake {
  const isUnset = value === undefined || value === null || value === "";
  if (!isUnset || meta.required !== true) {
    const found = meta.secret === true ? SECRET_TEXT : describeValue(value);
    return { paths: [path], says: `found ${found}; expected ${meta.expected}` };
  }
  const name = formatPath(path);
  if (meta.env === undefined)
    return { paths: [path], says: `missing; expected ${meta.expected}`, isMissing: true };
  const says = `${name} is missing: set ${meta.env}, or ${name} in the configuration file; expected ${meta.expected}`;
  return { paths: [], says, isMissing: true };
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

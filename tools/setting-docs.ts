/**
 * The descriptions of settings: the comments above their declarations in src/config/settings.ts and src/config/settings/.
 */
import { readFileSync } from "node:fs";

import * as z from "zod";

import { settingsSchema } from "../src/config/settings.ts";
import { isSection, partsOf } from "../src/config/settings/setting.ts";

const FILES = [
  "settings.ts",
  "settings/budget.ts",
  "settings/cache.ts",
  "settings/server.ts",
  "settings/upstream.ts",
];

/** A constant, a function or a member of an object at the beginning of a line, and the comment above it. */
const DECLARATION =
  /(?:\/\*\*((?:(?!\*\/)[^])*)\*\/\n)?(?:^ *\/\/.*\n)*^( *)(?:export )?(?:const |function )?(\w+)(?::| =|\()/gm;

/** @returns the comments by the name of the object and the name of its member: `budget.maxWaitMs`; `warm` for a constant */
function commentsIn(source: string): [string, string][] {
  const around: { readonly name: string; readonly indent: number }[] = [];
  return [...source.matchAll(DECLARATION)].flatMap(([, comment, { length: indent } = "", name = ""]) => {
    while ((around.at(-1)?.indent ?? -1) >= indent) around.pop();
    const path = [around.at(-1)?.name, name].filter((part) => part !== undefined).join(".");
    around.push({ name, indent });
    const text = comment?.replaceAll(/\s*\n *\* ?|\s+/g, " ").trim();
    return text === undefined ? [] : [[path, text]];
  });
}

const COMMENTS = new Map(
  FILES.flatMap((file) =>
    commentsIn(readFileSync(new URL(`../src/config/${file}`, import.meta.url), "utf8")),
  ),
);

/** The constants that declare the items of lists, by the name of the list. */
const ITEMS: Readonly<Record<string, string>> = { listed: "app", warm: "warmUrl" };

const descriptions = new WeakMap<z.core.$ZodType, string>();
describe(settingsSchema, "settingsSchema");

/** @param name of the object that declares the section */
function describe(section: z.ZodObject, name: string): void {
  for (const { key, shape } of partsOf(section)) {
    const description = COMMENTS.get(`${name}.${key}`) ?? COMMENTS.get(key);
    if (isSection(shape)) describe(shape, key);
    else if (description !== undefined) descriptions.set(shape, description);
    const item = ITEMS[key];
    if (shape instanceof z.ZodArray && shape.element instanceof z.ZodObject && item !== undefined)
      describe(shape.element, item);
  }
}

/** @returns plain sentences; empty if the shape is no setting */
export function descriptionOf(shape: z.core.$ZodType): string {
  return descriptions.get(shape) ?? "";
}

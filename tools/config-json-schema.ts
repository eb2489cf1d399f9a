import * as z from "zod";

import { SETTINGS, settingsSchema } from "../src/config/settings.ts";
import { metaOf, partsOf } from "../src/config/settings/setting.ts";
import { DURATION_PATTERN } from "../src/config/settings/units.ts";
import { descriptionOf } from "./setting-docs.ts";

/** A JSON Schema, as far as this file changes it. */
export interface JsonSchema {
  properties?: Record<string, JsonSchema>;
  required?: string[];
  anyOf?: JsonSchema[];
  items?: JsonSchema;
  pattern?: string;
  type?: string | string[];
  description?: string;
  default?: unknown;
  $schema?: string;
  title?: string;
}

/**
 * The JSON Schema with which an editor checks and completes a configuration file. It requires nothing, because the
 * file only changes defaults.
 */
export function configJsonSchema(): JsonSchema {
  const schema = plain(
    z.toJSONSchema(settingsSchema, {
      io: "input",
      override: ({ zodSchema, jsonSchema }) => {
        const description = descriptionOf(zodSchema);
        if (description !== "")
          jsonSchema.description = `${description} Expected: ${metaOf(zodSchema)?.expected}.`;
      },
    }),
  );
  useWrittenNames(settingsSchema, schema);
  allowLeavingOut(schema);
  allowOneForAll(schema);
  for (const { path, name, default: written = null } of SETTINGS) {
    if (written === null) continue;
    const at = path.reduce<JsonSchema | undefined>(
      (part, key) => (part?.anyOf?.[1] ?? part)?.properties?.[key],
      schema,
    );
    if (!at) throw new Error(`${name} is not in the JSON Schema`);
    at.default = written;
  }
  const { $schema = "", ...rest } = schema;
  return { $schema, title: "property-gateway configuration", ...rest };
}

/** A copy of the library's object without its hidden members, as the file shows it. */
function plain(schema: unknown): JsonSchema {
  return JSON.parse(JSON.stringify(schema));
}

/** Names settings as people write them, and omits what is no setting. */
function useWrittenNames(shape: z.core.$ZodType, schema: JsonSchema | undefined): void {
  if (schema === undefined) return;
  if (shape instanceof z.ZodArray) return useWrittenNames(shape.element, schema.items);
  if (!(shape instanceof z.ZodObject)) return;
  const parts = partsOf(shape);
  const properties = parts.map(({ key, name, shape: inner }): [string, JsonSchema] => {
    const part = schema.properties?.[key] ?? {};
    useWrittenNames(inner, part);
    return [name, part];
  });
  schema.properties = Object.fromEntries(properties);
}

/** Makes every setting optional. Items of lists keep their required members, because lists are replaced as a whole. */
function allowLeavingOut(schema: JsonSchema): void {
  delete schema.required;
  for (const part of Object.values(schema.properties ?? {})) allowLeavingOut(part);
}

/** Allows one value instead of a section: one duration for all kinds of answers, and a plain list for `listed`. */
function allowOneForAll(schema: JsonSchema): void {
  for (const [name, part] of Object.entries(schema.properties ?? {})) {
    const one = oneForAll(part);
    if (one === undefined) allowOneForAll(part);
    else schema.properties = { ...schema.properties, [name]: { anyOf: [one, part] } };
  }
}

function oneForAll({ properties = {}, description = "" }: JsonSchema): JsonSchema | undefined {
  if (properties["listed"]) return { ...properties["listed"] };
  const parts = Object.values(properties);
  const areDurations = parts.every(({ pattern }) => pattern === DURATION_PATTERN.source);
  return parts[0] && areDurations ? { ...parts[0], description } : undefined;
}

import * as z from "zod";

import { settingsSchema } from "../src/config/config-schema.ts";
import { metaOf } from "../src/config/setting-shapes.ts";
import { DURATION_PATTERN } from "../src/config/units.ts";
import { documentedSettings } from "./settings-table.ts";

/** A JSON Schema, as far as it is touched here. */
export interface JsonSchema {
  properties?: Record<string, JsonSchema>;
  required?: string[];
  anyOf?: JsonSchema[];
  pattern?: string;
  type?: string | string[];
  description?: string;
  default?: unknown;
  $schema?: string;
  title?: string;
}

/**
 * The JSON Schema with which an editor checks and completes a configuration file. Nothing is required
 * in one, because it only overlays the defaults.
 * @param defaults the text of the file of defaults
 */
export function configJsonSchema(defaults: string): JsonSchema {
  const schema = plain(
    z.toJSONSchema(settingsSchema, {
      io: "input",
      override: ({ zodSchema, jsonSchema }) => {
        const meaning = metaOf(zodSchema)?.meaning;
        if (meaning) jsonSchema.description = `${meaning}. Expected: ${metaOf(zodSchema)?.expected}.`;
      },
    }),
  );
  allowLeavingOut(schema);
  allowOneForAll(schema);
  for (const setting of documentedSettings(defaults)) {
    const at = setting.path.reduce<JsonSchema | undefined>(
      (part, key) => (part?.anyOf?.[1] ?? part)?.properties?.[key],
      schema,
    );
    if (!at) throw new Error(`${setting.path.join(".")} is not in the JSON Schema`);
    at.description = `${setting.meaning}. Expected: ${setting.expected}.`;
    if (setting.default !== null) at.default = setting.default;
  }
  const { $schema = "", ...rest } = schema;
  return { $schema, title: "property-gateway configuration", ...rest };
}

/** A copy of the library's object as what it is written as: without its hidden members. */
function plain(schema: unknown): JsonSchema {
  return JSON.parse(JSON.stringify(schema));
}

/** Items of lists are not overlaid but replaced, so what they require stays. */
function allowLeavingOut(schema: JsonSchema): void {
  delete schema.required;
  for (const part of Object.values(schema.properties ?? {})) allowLeavingOut(part);
}

/** Where there is a duration for each kind of answer, one for all may stand in their place. */
function allowOneForAll(schema: JsonSchema): void {
  for (const [name, part] of Object.entries(schema.properties ?? {})) {
    const parts = Object.values(part.properties ?? {});
    const [one] = parts;
    const areDurations = parts.every(({ pattern }) => pattern === DURATION_PATTERN.source);
    if (one !== undefined && areDurations)
      schema.properties = { ...schema.properties, [name]: { anyOf: [{ ...one }, part] } };
    else allowOneForAll(part);
  }
}

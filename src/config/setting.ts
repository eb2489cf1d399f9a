/**
 * Declares settings. A shape (`shapes.ts`, `text-shapes.ts`) defines which values a setting accepts. `setting()` declares
 * the rest, for example:
 *
 *     maxWait: setting(duration(), {
 *       default: "10s",
 *       env: "BUDGET_MAX_WAIT",
 *       reloadable: true,
 *       description: "A caller gets an answer or a refusal within this time after its request arrived.",
 *     }),
 *
 * Everything else is derived from this one declaration: the type and name in `Config` (`budget.maxWaitMs: number`), the
 * check and its messages, config/default.yaml, the JSON Schemas of the file and of the Helm chart, and the docs. Run
 * `npm run generate` after a change.
 */
import * as z from "zod";

import type { Secret } from "./secret.ts";

/** The unit at the end of a name in `Config`: the setting `maxWait` becomes `maxWaitMs`. */
export type Unit = "Ms" | "Bytes";

/** What a shape defines. */
interface ShapeFacts {
  /** Completes the sentence "expected …". */
  readonly expected: string;
  readonly unit?: Unit;
  /** No message shows the value. */
  readonly secret?: boolean;
  /** The value is secret only until the settings are valid. Then it is known to be the path of a file. */
  readonly shownOnceRead?: boolean;
}

/** What a declaration adds to its shape. `Written` is the type of the value as people write it. */
interface Declaration<Written> {
  /** Plain sentences for config/default.yaml, the docs and the JSON Schema. */
  readonly description?: string;
  /** The default as people write it; `null` if absent. */
  readonly default?: Written;
  /** The gateway does not start without the setting. */
  readonly required?: boolean;
  /** The environment variable that wins over the file. */
  readonly env?: string;
  /** An empty environment variable is a value. Otherwise it means that the variable is not set. */
  readonly emptyEnv?: boolean;
  /** A new value applies without a restart. */
  readonly reloadable?: boolean;
  /** Replaces the text of the shape. */
  readonly expected?: string;
}

export type SettingMeta = ShapeFacts & Declaration<unknown>;

/** A shape that reads `Input` and yields `Output`. */
export type Shape<Output, Input = string> = z.ZodType<Output, Input>;

const metas = z.registry<SettingMeta>();

/** @returns the shape, with a description of the values that it accepts */
export function shaped<S extends z.ZodType>(shape: S, facts: ShapeFacts): S {
  metas.add(shape, facts);
  return shape;
}

/** @returns what a shape expects, for another shape that is built on it */
export function factsOf(shape: z.ZodType): ShapeFacts {
  return { expected: metaOf(shape)?.expected ?? "" };
}

/** @returns a shape that also accepts no value, as `null` */
export function optional<S extends z.ZodType>(shape: S): z.ZodNullable<S> {
  return shaped(z.nullable(shape), { expected: "", ...metaOf(shape) });
}

/** Declares a setting. */
export function setting<S extends z.ZodType>(shape: S, declaration: Declaration<z.input<S>>): S {
  metas.add(shape, { expected: "", ...metaOf(shape), ...declaration });
  return shape;
}

/** @returns what {@link shaped} and {@link setting} attached; `undefined` for most sections */
export function metaOf(shape: z.core.$ZodType): SettingMeta | undefined {
  return metas.get(shape);
}

/** A setting. Sections and the fields of list items are not settings. */
export interface Setting extends SettingMeta {
  readonly path: readonly string[];
  /** The path of its value in `Settings` and usually in `Config`, with units in the names. */
  readonly readPath: readonly string[];
  /** `path` with dots. */
  readonly name: string;
  readonly shape: z.core.$ZodType;
}

/** @returns all settings below a section, in their order; a list is one setting */
export function settingsOf(section: z.ZodObject): Setting[] {
  return partsOf(section).flatMap(([key, shape]): Setting[] => {
    const meta = metaOf(shape) ?? { expected: "" };
    const readKey = nameWithUnit(key, meta.unit);
    if (!(shape instanceof z.ZodObject))
      return [{ ...meta, path: [key], readPath: [readKey], name: key, shape }];
    return settingsOf(shape).map((setting) => ({
      ...setting,
      path: [key, ...setting.path],
      readPath: [readKey, ...setting.readPath],
      name: `${key}.${setting.name}`,
    }));
  });
}

/** @returns the defaults of all settings below a section, as people write them */
export function defaultsOf(section: z.ZodObject): Record<string, unknown> {
  return Object.fromEntries(
    partsOf(section).map(([key, shape]) => [
      key,
      shape instanceof z.ZodObject ? defaultsOf(shape) : (metaOf(shape)?.default ?? null),
    ]),
  );
}

export function partsOf(section: z.ZodObject): [string, z.core.$ZodType][] {
  return Object.entries(section.shape);
}

/** @returns whether the value must stay hidden even if the settings are valid */
export function isSecret({ secret = false, shownOnceRead = false }: SettingMeta): boolean {
  return secret && !shownOnceRead;
}

/** @returns the name in `Config` of the setting `key`: `maxWait` → `maxWaitMs`, `maxBody` → `maxBodyBytes` */
export function nameWithUnit(key: string, unit: Unit | undefined): string {
  return unit === "Bytes" ? `${key.replace(/(Bytes|Length|Size)$/, "")}Bytes` : `${key}${unit ?? ""}`;
}

/** The same for types: the output of a section's schema, with units in the names. */
export type Named<T> = { readonly [K in keyof T & string as NameWithUnit<K, T[K]>]: NamedValue<T[K]> };

type NameWithUnit<K extends string, V> = [Extract<V, z.$brand<"Ms">>] extends [never]
  ? [Extract<V, z.$brand<"Bytes">>] extends [never]
    ? K
    : `${WithoutBytes<K>}Bytes`
  : `${K}Ms`;

type WithoutBytes<K extends string> = K extends `${infer Name}${"Bytes" | "Length" | "Size"}` ? Name : K;

type NamedValue<V> = V extends z.$brand<"Ms"> | z.$brand<"Bytes">
  ? V extends number
    ? number
    : { readonly [K in keyof V & string]: V[K] }
  : V extends readonly (infer Item)[]
    ? readonly Readonly<Item>[]
    : V extends z.core.util.Literal | Secret
      ? V
      : Named<V>;

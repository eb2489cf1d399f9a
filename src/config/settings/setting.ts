/**
 * Declares settings. A shape (`shapes.ts`) defines which values a setting accepts. `setting()` declares the rest, for example:
 *
 *     /** The longest time from a request's arrival to an answer or a refusal. *\/
 *     maxWaitMs: setting(shape.duration(), { default: "10s", env: "BUDGET_MAX_WAIT", reloadable: true }),
 *
 * The key is the name in `Config`. People write it without the unit: `maxWait`. Everything else is derived from this one
 * declaration: the type in `Config`, the check and its messages, config/default.yaml, the JSON Schemas of the file and of
 * the Helm chart, and the docs. The comment is the description in these files. Run `npm run generate` after a change.
 */
import * as z from "zod";

/** What a declaration adds to its shape. `Written` is the type of the value as people write it. */
export interface Declaration<Written = unknown> {
  /** The default as people write it; `null` if absent. */
  readonly default?: Written;
  /** The gateway does not start without the setting. */
  readonly required?: boolean;
  /** The environment variable that wins over the file. */
  readonly env?: string;
  /** The environment variable that holds the secret itself, where the setting is the path of its file. */
  readonly secretEnv?: string;
  /** An empty environment variable is a value. Otherwise it means that the variable is not set. */
  readonly emptyEnv?: boolean;
  /** A new value applies without a restart. */
  readonly reloadable?: boolean;
  /** Completes the sentence "expected …". The text of a setting replaces the text of its shape. */
  readonly expected?: string;
  /** No message shows the value. */
  readonly secret?: boolean;
  /** The kind of secret in the file. The path itself is secret until the settings are valid, because it could be a secret. */
  readonly holds?: SecretKind;
}

export type SecretKind = "key" | "password" | "token";

/** A shape that reads `Input` and yields `Output`. */
export type Shape<Output, Input = string> = z.ZodType<Output, Input>;

const metas = z.registry<Declaration>();

/** @returns the shape, with a description of the values that it accepts */
export function shaped<S extends z.ZodType>(shape: S, expected: string, more: Declaration = {}): S {
  metas.add(shape, { ...more, expected });
  return shape;
}

/** @returns a shape that also accepts no value, as `null` */
export function optional<S extends z.ZodType>(shape: S): z.ZodNullable<S> {
  return shaped(z.nullable(shape), metaOf(shape)?.expected ?? "", metaOf(shape));
}

/** Declares a setting. */
export function setting<S extends z.ZodType>(shape: S, declaration: Declaration<z.input<S>>): S {
  // A copy, because several settings may share a shape.
  const own = shape.clone();
  metas.add(own, { ...metaOf(shape), ...declaration });
  return own;
}

/** @returns what {@link shaped} and {@link setting} attached; `undefined` for most sections */
export function metaOf(shape: z.core.$ZodType): Declaration | undefined {
  return metas.get(shape);
}

/**
 * @returns the parts of a section: settings, and sections below it. `key`: the name in `Config`; `name`: the one in files,
 *   without the unit
 */
export function partsOf(section: z.ZodObject): { key: string; name: string; shape: z.core.$ZodType }[] {
  return Object.entries(section.shape).map(([key, shape]) => ({ key, name: nameOf(key), shape }));
}

/** @param key a name in `Config`. @returns the name in files */
export function nameOf(key: string): string {
  return key.replace(/Ms$/, "");
}

/** A setting. Sections, the fields of list items, and the kinds of answers in a lifetime are not settings. */
export interface Setting extends Declaration {
  readonly path: readonly string[];
  /** `path` with dots. */
  readonly name: string;
  readonly shape: z.core.$ZodType;
}

/** @returns all settings below a section, in their order */
export function settingsOf(section: z.ZodObject, above: readonly string[] = []): Setting[] {
  return partsOf(section).flatMap(({ name, shape }): Setting[] => {
    const path = [...above, name];
    if (isSection(shape)) return settingsOf(shape, path);
    return [{ ...metaOf(shape), path, name: path.join("."), shape }];
  });
}

/** @returns whether a shape has settings below it. The kinds of answers in a lifetime are not settings. */
export function isSection(shape: z.core.$ZodType): shape is z.ZodObject {
  return shape instanceof z.ZodObject && metaOf(shape)?.default === undefined;
}

/** @returns the defaults of all settings below a section, as people write them */
export function defaultsOf(section: z.ZodObject): Record<string, unknown> {
  return Object.fromEntries(
    partsOf(section).map(({ name, shape }) => [
      name,
      isSection(shape) ? defaultsOf(shape) : (metaOf(shape)?.default ?? null),
    ]),
  );
}

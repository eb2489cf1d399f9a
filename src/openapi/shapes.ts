/** The query parameters of the OpenAPI document. */
import type { Parameter, Shape, TuplePart } from "../interface/parameters.ts";

/** Part of an OpenAPI document. */
export type Json = Readonly<Record<string, unknown>>;

/** The schema of a value, as far as the page `/docs` shows it. */
export interface Schema extends Json {
  readonly type?: string;
  readonly enum?: readonly (string | number)[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
}

/** A parameter of an operation. */
export interface DocumentedParameter {
  readonly name: string;
  readonly in: "query" | "path" | "header";
  readonly required?: true;
  readonly description: string;
  readonly schema: Schema;
  readonly example: unknown;
}

/** @param maxLimit the largest page size */
export function parameterOf(parameter: Parameter, maxLimit: number): DocumentedParameter {
  const { name, meaning, shape, example, sameAsAbsent, onlyWith, requires } = parameter;
  const schema: Schema = { ...schemaOf(shape), ...(name === "limit" && { maximum: maxLimit }) };
  const sentences = [
    `${meaning}.`,
    sameAsAbsent !== undefined && `Its default is ${sameAsAbsent}.`,
    onlyWith !== undefined && `It has no effect without ${onlyWith}.`,
    requires !== undefined && `It needs ${requires}.`,
  ];
  return {
    name,
    in: "query",
    description: sentences.filter(Boolean).join(" "),
    schema,
    example: exampleOf(schema, example),
    ...(schema.type === "array" && { style: "form", explode: false }),
  };
}

const bounds = ({ min, max }: Pick<TuplePart, "min" | "max">): Json => ({ minimum: min, maximum: max });

function schemaOf(shape: Shape): Schema {
  switch (shape.kind) {
    case "text":
      return { type: "string", pattern: String.raw`^[^\u0000-\u001f\u007f]*$` };
    case "integer":
      return { type: "integer", ...bounds(shape) };
    case "decimal":
      return { type: "number", ...bounds(shape) };
    case "date":
      return { type: "string", pattern: String.raw`^\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$` };
    case "switch":
      return { type: "integer", enum: [0, 1] };
    case "idSet":
      return { type: "array", minItems: 1, items: { type: "integer", minimum: 0 } };
    case "wordSet":
      return { type: "array", minItems: 1, items: { type: "string", enum: shape.words } };
    case "tuple":
      return {
        type: "array",
        minItems: shape.parts.length,
        maxItems: shape.parts.length,
        prefixItems: shape.parts.map((part) => ({ type: "number", title: part.name, ...bounds(part) })),
        items: { type: "number" },
      };
  }
}

/** @returns an example, which a caller writes as text, as a JSON value */
function exampleOf({ type, items = {} }: Schema, example: string): unknown {
  if (type === "array") return example.split(",").map((item) => exampleOf(items, item));
  return type === "string" ? example : Number(example);
}

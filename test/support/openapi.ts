/** Holds answers against an OpenAPI document. */
import { brotliDecompressSync } from "node:zlib";

import { Ajv2020 } from "ajv/dist/2020.js";
import { expect } from "vitest";

import { OF_THE_CONNECTION, type Reply } from "./ask.ts";
import type { Anything } from "./files.ts";

/** Holds an answer against what the document says of its operation, or, where it names none, of its status. */
export type ExpectDocumented = (reply: Reply, path: string | undefined) => void;

/** @param requiresHeaders whether headers that are marked as required have to be there */
export function createExpectDocumented(document: Anything): ExpectDocumented {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true, coerceTypes: true });
  ajv.addSchema(document, "doc");
  const { components, paths } = document;

  type Where = readonly [path: string | undefined, status: number];

  function expectHeaders(where: Where, { headers }: Reply, documented: readonly string[]): void {
    for (const name of documented) {
      const { required = false, schema } = components.headers[name] ?? { schema: {} };
      const value = headers[name.toLowerCase()]?.toString();
      const isFine = value === undefined ? !required : ajv.validate(schema, value);
      expect([where, name, value, isFine]).toEqual([where, name, value, true]);
    }
    const known = new Set([
      ...OF_THE_CONNECTION,
      "content-length",
      "content-type",
      ...documented.map((name) => name.toLowerCase()),
    ]);
    expect([where, Object.keys(headers).filter((name) => !known.has(name))]).toEqual([where, []]);
  }

  function expectBody(where: Where, reply: Reply, content: Anything): void {
    const type = reply.headers["content-type"]?.split(";")[0] ?? "";
    const media = content?.[type];
    expect([where, type, media]).toEqual([where, type, expect.any(Object)]);
    if (media?.schema === undefined || !type.endsWith("json")) return;
    const isValid = ajv.validate(absolute(media.schema), bodyOf(reply));
    expect([where, isValid, ajv.errors]).toEqual([where, true, null]);
  }

  return function expectDocumented(reply, path) {
    const { status } = reply;
    const where = [path, status] as const;
    const named = path === undefined ? { $ref: problemRef(status) } : paths[path]?.["get"]?.responses[status];
    const response = named?.$ref === undefined ? named : components.responses[lastOf(named.$ref)];
    expect([where, response]).toEqual([where, expect.any(Object)]);
    expectHeaders(where, reply, Object.keys(response?.headers ?? {}));
    if (status !== 304) expectBody(where, reply, response?.content);
  };
}

const lastOf = (reference: string): string => reference.split("/").at(-1) ?? "";

function bodyOf({ headers, body }: Reply): unknown {
  const text = headers["content-encoding"] === "br" ? brotliDecompressSync(body) : body;
  return JSON.parse(text.toString());
}

const problemRef = (status: number): string => `#/components/responses/Problem${status}`;

/** References as seen from outside the document. */
function absolute(schema: object): object {
  const whole: object = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"doc#/'));
  return whole;
}

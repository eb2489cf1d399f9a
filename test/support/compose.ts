/** The project's compose.yaml, with its variables at their defaults. */
import { readFileSync } from "node:fs";

import { parse } from "yaml";

import type { Anything } from "./files.ts";

export interface Service {
  readonly command?: readonly string[];
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly [field: string]: Anything;
}

export function composeFile(): Readonly<Record<"services" | "volumes", Record<string, Service>>> {
  const text = readFileSync("compose.yaml", "utf8").replace(/\$\{\w+:-([^}]*)\}/g, "$1");
  return parse(text, { merge: true });
}

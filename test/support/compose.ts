/** The project's compose.yaml, with its variables at their defaults. */
import { readFileSync } from "node:fs";

import { parse } from "yaml";

export interface Service {
  readonly image: string;
  readonly build?: { readonly context: string; readonly args: Readonly<Record<string, string>> };
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly user?: string;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly stop_grace_period?: string;
}

export interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

export function composeFile(): Compose {
  const text = readFileSync("compose.yaml", "utf8").replace(/\$\{\w+:-([^}]*)\}/g, "$1");
  const compose: Compose = parse(text, { merge: true });
  return compose;
}

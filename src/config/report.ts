/**
 * Messages about settings: one line for each mistake.
 */
import { type Environment, SECRET_VARIABLES } from "./env.ts";
import { SECRET_TEXT } from "./secrets/secret.ts";
import type { Mistake, SettingSources } from "./sources.ts";

/** @returns one line that names the setting of a mistake, and its place */
export function describeMistake({ path, says }: Mistake, { nameOf, pathOf }: SettingSources): string {
  return path === undefined ? says : `${nameOf(path)}: ${pathOf(path)}: ${says}`;
}

/** Shorter secrets are not masked, because they could be part of ordinary words. */
const SHORTEST_MASKED = 6;

/** Masks the secrets of the environment in a line, because a secret may also be written in the wrong place. */
export function maskSecrets(line: string, env: Environment): string {
  return SECRET_VARIABLES.map((name) => env[name] ?? "")
    .filter((secret) => secret.length >= SHORTEST_MASKED)
    .reduce((masked, secret) => masked.replaceAll(secret, SECRET_TEXT), line);
}

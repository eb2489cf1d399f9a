/**
 * Reads the settings that environment variables set. No other module reads `process.env`.
 */
import * as z from "zod";

import { almostSame } from "../interface/intended-name.ts";
import { SECRET_TEXT } from "./secrets/secret.ts";
import { REMOVED } from "./settings/removed.ts";
import { SETTINGS } from "./settings.ts";
import { type Assignment, leavesOf } from "./sources.ts";

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The environment variable with the path of the YAML file. The file wins over the defaults. */
export const CONFIG_FILE = "CONFIG_FILE";

/** The variables that hold a secret, which the settings file cannot hold. */
export const SECRET_VARIABLES = SETTINGS.flatMap(({ secretEnv = [] }) => secretEnv);

/** @returns the environment of this process */
export function processEnvironment(): Environment {
  return process.env;
}

/** @returns what the environment sets, and one line for each problem */
export function readEnvironment(env: Environment): { assignments: Assignment[]; problems: string[] } {
  const assignments: Assignment[] = [];
  for (const { env: variable = "", path, shape, emptyEnv } of SETTINGS) {
    // Only the names of proxy variables are common in lower case.
    const otherName = variable.endsWith("_PROXY") ? variable.toLowerCase() : variable;
    const value = env[variable] || env[otherName];
    if (value === undefined || (value === "" && emptyEnv !== true)) continue;
    const source = `environment variable ${variable}`;
    for (const [place, part] of leavesOf(readText(value, shape), path))
      assignments.push({ source, path: place, value: part });
  }
  return { assignments, problems: [...removedIn(env), ...misspelled(env)] };
}

/** @returns the value that the setting needs. If the text is no such value: the text, which the check then refuses */
function readText(text: string, shape: z.core.$ZodType): unknown {
  if (shape instanceof z.ZodObject) return readPairs(text) ?? text;
  if (shape instanceof z.ZodBoolean && /^(true|false)$/.test(text)) return text === "true";
  const numbers = shape instanceof z.ZodNumberFormat ? /^\d{1,15}$/ : /^\d{1,15}(\.\d{1,15})?$/;
  return shape instanceof z.ZodNumber && numbers.test(text) ? Number(text) : text;
}

/** Reads `a=…,b=…`, which sets single keys of a section, each at most once. */
function readPairs(text: string): Record<string, string> | undefined {
  const items = text.split(",");
  const pairs = items.map((item) => /^\s*([A-Za-z]+)\s*=\s*(\S+)\s*$/.exec(item));
  const section = Object.fromEntries(pairs.flatMap((pair) => (pair ? [[pair[1], pair[2]]] : [])));
  return Object.keys(section).length === items.length ? section : undefined;
}

function removedIn(env: Environment): string[] {
  return REMOVED.filter(({ env: name }) => name !== undefined && env[name]).map(
    ({ env: name, instead }) => `environment variable ${name}: this setting no longer exists. ${instead}`,
  );
}

/**
 * Finds misspelled names. The environment also contains variables of other programs. So a name counts only if it differs
 * from one of ours by one letter. Names of one word never count: `POST` is similar to `PORT` and `HOST`, but means neither.
 */
function misspelled(env: Environment): string[] {
  const known = [...SETTINGS.flatMap(({ env: name = [] }) => name), ...SECRET_VARIABLES, CONFIG_FILE];
  const handled = new Set([...known, ...REMOVED.map((removed) => removed.env)]);
  const others = Object.keys(env).filter(
    (name) => env[name] && name.includes("_") && !/_proxy$/i.test(name) && !handled.has(name),
  );
  return others.flatMap((name) => {
    const meant = known.find((candidate) => candidate.includes("_") && almostSame(candidate, name));
    return meant ? [`environment variable ${name}: unknown; did you mean ${meant}?`] : [];
  });
}

/** Shorter secrets are not masked, because they could be part of ordinary words. */
const SHORTEST_MASKED = 6;

/** Masks the secrets of the environment in a line, because a secret may also be written in the wrong place. */
export function maskSecrets(line: string, env: Environment): string {
  return SECRET_VARIABLES.map((name) => env[name] ?? "")
    .filter((secret) => secret.length >= SHORTEST_MASKED)
    .reduce((masked, secret) => masked.replaceAll(secret, SECRET_TEXT), line);
}

import type { Config } from "../../../src/config/config.ts";
import { examineConfig, type ExaminedConfig } from "../../../src/config/load.ts";

/** The least environment with which the gateway starts. */
export const MINIMAL = {
  UPSTREAM_URL: "https://api.example.com",
  UPSTREAM_IMAGE_URL: "https://images.example.com",
  UPSTREAM_SERVICE: "propertyservice",
  UPSTREAM_CALLER_ID: "acme",
  UPSTREAM_PRIVATE_KEY: "k3y-of-acme",
  UPSTREAM_USER_AGENT: "acme-gateway/1.0",
  UPSTREAM_REFERRER: "https://www.acme.se/",
  BUDGET: "60/1m,10000/1d",
};

function examine(env: Record<string, string>, files: Record<string, string>): ExaminedConfig {
  const readFile = (path: string): string => {
    const content = files[path];
    if (content === undefined) throw Object.assign(new Error(`no ${path}`), { code: "ENOENT" });
    return content;
  };
  return examineConfig({ env, readFile });
}

/** Loads the defaults with these variables and files. No other file can be read. */
export function load(env: Record<string, string>, files: Record<string, string> = {}): Config {
  const { usable, problems } = examine(env, files);
  if (usable === undefined) throw new Error(problems.join("\n"));
  return usable.config;
}

/** The lines with which a start is refused; none where it is not. */
export const problemsOf = (
  env: Record<string, string>,
  files: Record<string, string> = {},
): readonly string[] => examine(env, files).problems;

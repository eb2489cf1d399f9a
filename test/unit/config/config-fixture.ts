import { type Config, ConfigError } from "../../../src/config/config.ts";
import { openSettings } from "../../../src/config/load.ts";

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

/** Loads the defaults with these variables and files. No other file can be read. */
export function load(env: Record<string, string>, files: Record<string, string> = {}): Config {
  const readFile = (path: string): string => {
    const content = files[path];
    if (content === undefined) throw Object.assign(new Error(`no ${path}`), { code: "ENOENT" });
    return content;
  };
  return openSettings({ env, readFile }).first.config;
}

/** The lines with which a start is refused; none where it is not. */
export function problemsOf(
  env: Record<string, string>,
  files: Record<string, string> = {},
): readonly string[] {
  try {
    load(env, files);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

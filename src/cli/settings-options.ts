/** Settings that are also options. An option overrides the environment and the settings file. */
import { type Command, InvalidArgumentError, Option } from "commander";

import { CONFIG_FILE, type Environment, processEnvironment } from "../config/env.ts";

/** The options: flags, description, environment variable. */
const OPTIONS = {
  config: ["-c, --config <file>", `settings file (${CONFIG_FILE})`, CONFIG_FILE],
  host: ["--host <address>", "address for callers (HOST, server.host)", "HOST"],
  port: ["-p, --port <number>", "port for callers (PORT, server.port); 0: any free port", "PORT"],
  adminHost: ["--admin-host <address>", "address for operators (ADMIN_HOST, admin.host)", "ADMIN_HOST"],
  adminPort: ["--admin-port <number>", "port for operators (ADMIN_PORT, admin.port)", "ADMIN_PORT"],
  logLevel: ["--log-level <level>", "lowest level of logged events (LOG_LEVEL, log.level)", "LOG_LEVEL"],
} as const;

export const PORT = wholeNumber(65_535, "a port");

/** Adds options that set settings. */
export function addSettingOptions(command: Command, names: readonly (keyof typeof OPTIONS)[]): Command {
  for (const name of names) {
    const [flags, description] = OPTIONS[name];
    const option = new Option(flags, description);
    command.addOption(flags.endsWith("<number>") ? option.argParser(PORT) : option);
  }
  return command;
}

/** @returns the environment of this process, overridden by the options */
export function environmentWith(options: Readonly<Record<string, string | number | undefined>>): Environment {
  const given = Object.entries(OPTIONS).flatMap(([name, [, , variable]]) =>
    options[name] === undefined ? [] : [[variable, String(options[name])]],
  );
  return { ...processEnvironment(), ...Object.fromEntries(given) };
}

/** @returns a function that reads an option's value */
export function wholeNumber(most: number, what = "an integer"): (text: string) => number {
  return (text) => {
    if (/^\d{1,10}$/.test(text) && Number(text) <= most) return Number(text);
    throw new InvalidArgumentError(`Expected ${what} from 0 to ${most}.`);
  };
}

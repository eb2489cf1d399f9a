/** Settings that are also options. An option overrides the environment and the settings file. */
import { type Command, InvalidArgumentError, Option } from "commander";

import { CONFIG_FILE, type Environment, processEnvironment } from "../config/env.ts";

/** The options: flags, description, environment variable. */
const OPTIONS = {
  config: ["-c, --config <file>", `settings file (${CONFIG_FILE})`, CONFIG_FILE],
  host: ["--host <address>", "address for callers (HOST, server.host)", "HOST"],
  port: ["-p, --port <number>", "port for callers (PORT, server.port)", "PORT"],
  adminHost: ["--admin-host <address>", "address for operators (ADMIN_HOST, admin.host)", "ADMIN_HOST"],
  adminPort: ["--admin-port <number>", "port for operators (ADMIN_PORT, admin.port)", "ADMIN_PORT"],
  logLevel: ["--log-level <level>", "lowest level of logged events (LOG_LEVEL, log.level)", "LOG_LEVEL"],
} as const;

/** Adds options that set settings. */
export function addSettingOptions(command: Command, names: readonly (keyof typeof OPTIONS)[]): Command {
  for (const name of names) {
    const [flags, description] = OPTIONS[name];
    const option = new Option(flags, description);
    command.addOption(flags.endsWith("<number>") ? option.argParser(portNumber) : option);
  }
  return command;
}

/** @returns the environment of this process, overridden by the options */
export function environmentWith(options: Readonly<Record<string, unknown>>): Environment {
  const given = Object.entries(OPTIONS).flatMap(([name, [, , variable]]) =>
    typeof options[name] === "string" ? [[variable, options[name]]] : [],
  );
  return { ...processEnvironment(), ...Object.fromEntries(given) };
}

function portNumber(text: string): string {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return text;
  throw new InvalidArgumentError("Expected a port from 0 to 65535; 0 means any free port.");
}

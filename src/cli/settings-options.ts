/** Settings that are also options. An option overrides the environment and the settings file. */
import { type Command, InvalidArgumentError, Option } from "commander";

import { CONFIG_FILE, type Environment, processEnvironment } from "../config/env.ts";

/** The options with their environment variables. */
const OPTIONS = {
  config: [new Option("-c, --config <file>", `settings file (${CONFIG_FILE})`), CONFIG_FILE],
  host: [new Option("--host <address>", "address for callers (HOST, server.host)"), "HOST"],
  port: [
    new Option("-p, --port <number>", "port for callers (PORT, server.port)").argParser(portNumber),
    "PORT",
  ],
  adminHost: [
    new Option("--admin-host <address>", "address for operators (ADMIN_HOST, admin.host)"),
    "ADMIN_HOST",
  ],
  adminPort: [
    new Option("--admin-port <number>", "port for operators (ADMIN_PORT, admin.port)").argParser(portNumber),
    "ADMIN_PORT",
  ],
  logLevel: [
    new Option("--log-level <level>", "lowest level of logged events (LOG_LEVEL, log.level)"),
    "LOG_LEVEL",
  ],
} as const;

type SettingOption = keyof typeof OPTIONS;

/** The options of commands that run a gateway. */
export const SERVER_OPTIONS = ["config", "host", "port", "adminHost", "adminPort", "logLevel"] as const;

/** The options as commander parsed them. */
export type SettingOptions = Readonly<Partial<Record<SettingOption, string | undefined>>>;

/** Adds options that set settings. */
export function addSettingOptions(command: Command, names: readonly SettingOption[]): Command {
  for (const name of names) command.addOption(OPTIONS[name][0]);
  return command;
}

/** @returns the environment of this process, overridden by the options */
export function environmentWith(options: Readonly<Record<string, unknown>>): Environment {
  const given = Object.entries(OPTIONS).flatMap(([name, [, variable]]) =>
    typeof options[name] === "string" ? [[variable, options[name]]] : [],
  );
  return { ...processEnvironment(), ...Object.fromEntries(given) };
}

function portNumber(text: string): string {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return text;
  throw new InvalidArgumentError("Expected a port from 0 to 65535; 0 means any free port.");
}

/** Settings that are also options. An option overrides the environment and the settings file. */
import { type Command, InvalidArgumentError, Option } from "commander";

import { CONFIG_FILE, type Environment, processEnvironment } from "../config/env.ts";

const OPTIONS = {
  config: new Option("-c, --config <file>", `settings file (${CONFIG_FILE})`),
  host: new Option("--host <address>", "address for callers (HOST, server.host)"),
  port: new Option("-p, --port <number>", "port for callers (PORT, server.port)").argParser(portNumber),
  adminHost: new Option("--admin-host <address>", "address for operators (ADMIN_HOST, admin.host)"),
  adminPort: new Option("--admin-port <number>", "port for operators (ADMIN_PORT, admin.port)").argParser(
    portNumber,
  ),
  logLevel: new Option("--log-level <level>", "lowest level of logged events (LOG_LEVEL, log.level)"),
};

type SettingOption = keyof typeof OPTIONS;

/** The options of commands that run a gateway. */
export const SERVER_OPTIONS = ["config", "host", "port", "adminHost", "adminPort", "logLevel"] as const;

const VARIABLE_OF: Readonly<Record<SettingOption, string>> = {
  config: CONFIG_FILE,
  host: "HOST",
  port: "PORT",
  adminHost: "ADMIN_HOST",
  adminPort: "ADMIN_PORT",
  logLevel: "LOG_LEVEL",
};

/** The options as commander parsed them. */
export type SettingOptions = Readonly<Partial<Record<SettingOption, string>>>;

/** Adds options that set settings. */
export function addSettingOptions(command: Command, names: readonly SettingOption[]): Command {
  for (const name of names) command.addOption(OPTIONS[name]);
  return command;
}

/** @returns the environment of this process, overridden by the options */
export function environmentWith(options: SettingOptions): Environment {
  const given = Object.entries(VARIABLE_OF).flatMap(([name, variable]) => {
    const value: unknown = Reflect.get(options, name);
    return typeof value === "string" ? [[variable, value]] : [];
  });
  return { ...processEnvironment(), ...Object.fromEntries(given) };
}

function portNumber(text: string): string {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return text;
  throw new InvalidArgumentError("Expected a port from 0 to 65535; 0 means any free port.");
}

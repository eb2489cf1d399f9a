/**
 * The command line. Each command loads its larger dependencies only when it runs. docs/admin.md describes the commands and
 * exit codes.
 */
import { Command, CommanderError } from "commander";

import type { Environment } from "../config/env.ts";
import { build } from "../telemetry/build.ts";
import { addAdminCommands } from "./admin-commands.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { addSandbox } from "./sandbox.ts";
import {
  addSettingOptions,
  environmentWith,
  SERVER_OPTIONS,
  type SettingOptions,
} from "./settings-options.ts";

/**
 * Runs a command. Sets the exit code of the process; problems go to standard error.
 * @param args the command and its arguments
 */
export async function runCommand(args: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(args, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
    } else if (error instanceof CommandFailure) {
      process.stderr.write(`${error.message}\n`);
      process.exitCode = error.exitCode;
    } else throw error;
  }
}

interface LocalCommand {
  readonly name: string;
  readonly alias?: string;
  readonly description: string;
  readonly options: Parameters<typeof addSettingOptions>[1];
  /** An argument, and an option without a value, each with its description. */
  readonly argument?: readonly [name: string, description: string];
  readonly flag?: readonly [name: string, description: string];
  readonly run: (env: Environment, given: Readonly<Record<string, unknown>>) => Promise<void>;
}

/** The commands that need no running gateway, and `health`. */
const COMMANDS: readonly LocalCommand[] = [
  {
    name: "start",
    alias: "gateway",
    description: "run the gateway until SIGTERM or SIGINT",
    options: SERVER_OPTIONS,
    run: async (env) => await (await import("../main.ts")).main(env),
  },
  {
    name: "demo",
    description: "run a sandbox, a gateway in front of it, and five apps that send requests; no setup needed",
    options: SERVER_OPTIONS,
    run: async (env) => await (await import("./demo-run.ts")).runDemo(env),
  },
  {
    name: "check-config",
    alias: "config-check",
    description: "check the settings that a start would use, and list where each value comes from",
    options: ["config"],
    run: async (env) => (await import("./check-config.ts")).checkConfig(env),
  },
  {
    name: "doctor",
    description:
      "check what a start would need: settings, files, Redis, the property API, limits of the system",
    options: ["config"],
    flag: ["--call", "also send one signed call to the property API"],
    run: async (env, { call }) => await (await import("./doctor.ts")).runDoctor(env, call === true),
  },
  {
    name: "health",
    alias: "health-check",
    description: "check whether a running gateway accepts requests",
    argument: ["[url]", "URL to check (default: /readyz of the admin port in the settings)"],
    options: ["config", "adminHost", "adminPort"],
    run: async (env, { url }) => await (await import("./health.ts")).checkHealth(env, url),
  },
  {
    name: "adopt-data",
    description: "assign DATA_DIR to the account in the settings",
    options: ["config"],
    run: async (env) => (await import("./adopt-data.ts")).adoptData(env),
  },
];

function createProgram(): Command {
  const program = new Command("property-gateway")
    .description("A gateway in front of a property API: few upstream calls, fresh answers.")
    .version(build.version)
    .exitOverride()
    .showHelpAfterError("Add --help to list all commands and options.")
    .configureHelp({ sortSubcommands: false });
  for (const { name, alias, description, options, argument, flag, run } of COMMANDS) {
    const command = addSettingOptions(program.command(name).description(description), options);
    if (alias !== undefined) command.alias(alias);
    if (argument !== undefined) command.argument(...argument);
    if (flag !== undefined) command.option(...flag);
    command.action(async () => {
      const given: SettingOptions = command.opts();
      await run(environmentWith(given), { ...given, url: command.args[0] });
    });
  }
  addSandbox(program);
  addAdminCommands(program);
  for (const command of program.commands) command.version(build.version).allowExcessArguments(false);
  return program;
}

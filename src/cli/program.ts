/**
 * The command line. Each command loads its larger dependencies only when it runs. docs/admin.md describes the commands and
 * exit codes.
 */
import { Command, CommanderError } from "commander";

import { ConfigError } from "../config/config.ts";
import type { Environment } from "../config/env.ts";
import { UnusableData } from "../sqlite/files.ts";
import { build } from "../telemetry/build.ts";
import { addAdminCommands } from "./admin-commands.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { addSandbox } from "./sandbox.ts";
import { addSettingOptions, environmentWith } from "./settings-options.ts";

/**
 * Runs a command. Sets the exit code of the process; problems go to standard error.
 * @param args the command and its arguments
 */
export async function runCommand(args: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(args, { from: "user" });
  } catch (error) {
    if (error instanceof CommandFailure || error instanceof ConfigError || error instanceof UnusableData) {
      process.stderr.write(`${error.message}\n`);
      process.exitCode = error instanceof CommandFailure ? error.exitCode : EXIT.failed;
    } else if (!(error instanceof CommanderError)) throw error;
    // Commander has printed its own messages.
    else process.exitCode = error.exitCode === 0 ? 0 : EXIT.usage;
  }
}

/** The options of commands that run a gateway. */
const OF_SERVER = ["config", "host", "port", "adminHost", "adminPort", "logLevel"] as const;
const OF_ADMIN = ["config", "adminHost", "adminPort"] as const;
const SETTINGS_FILE = ["config"] as const;

function createProgram(): Command {
  const program = new Command("property-gateway")
    .description("A gateway in front of a property API: few upstream calls, fresh answers.")
    .version(build.version)
    .exitOverride()
    .showHelpAfterError("Add --help to list all commands and options.")
    .configureHelp({ sortSubcommands: false });

  /** Adds a command. Its options override the environment. */
  function add(
    [name = "", ...aliases]: readonly string[],
    does: string,
    options: Parameters<typeof addSettingOptions>[1],
    run: (env: Environment, command: Command) => Promise<void>,
  ): Command {
    const command = addSettingOptions(program.command(name).aliases(aliases).description(does), options);
    return command.action(async () => await run(environmentWith(command.opts()), command));
  }

  add(["start", "gateway"], "run the gateway until SIGTERM or SIGINT", OF_SERVER, async (env) =>
    (await import("../main.ts")).main(env),
  );
  const demo = "run a sandbox, a gateway in front of it, and five apps that send requests; no setup needed";
  add(["demo"], demo, OF_SERVER, async (env) => (await import("./demo-run.ts")).runDemo(env));
  const check = "check the settings that a start would use, and list where each value comes from";
  add(["check-config", "config-check"], check, SETTINGS_FILE, async (env) =>
    (await import("./check-config.ts")).checkConfig(env),
  );
  const doctor = "check what a start would need: settings, DATA_DIR, Redis, the property API";
  add(["doctor"], doctor, SETTINGS_FILE, async (env, command) =>
    (await import("./doctor.ts")).runDoctor(env, command.getOptionValue("call") === true),
  ).option("--call", "also send one signed call to the property API");
  const health = "check whether a running gateway accepts requests";
  add(["health", "health-check"], health, OF_ADMIN, async (env, { args: [url] }) =>
    (await import("./health.ts")).checkHealth(env, url),
  ).argument("[url]", "URL to check (default: /readyz of the admin port in the settings)");
  add(["adopt-data"], "assign DATA_DIR to the account in the settings", SETTINGS_FILE, async (env) =>
    (await import("./adopt-data.ts")).adoptData(env),
  );
  addSandbox(program);
  addAdminCommands(program);
  for (const one of program.commands) one.version(build.version).allowExcessArguments(false);
  return program;
}

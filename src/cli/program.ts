/**
 * The command line. Each command loads its larger dependencies only when it runs. docs/admin.md describes the commands and
 * exit codes.
 */
import { Command, CommanderError } from "commander";

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
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
    } else if (error instanceof CommandFailure) {
      process.stderr.write(`${error.message}\n`);
      process.exitCode = error.exitCode;
    } else throw error;
  }
}

type Options = Readonly<Record<string, unknown>>;

/** The options of commands that run a gateway. */
const OF_SERVER = ["config", "host", "port", "adminHost", "adminPort", "logLevel"] as const;

function createProgram(): Command {
  const program = new Command("property-gateway")
    .description("A gateway in front of a property API: few upstream calls, fresh answers.")
    .version(build.version)
    .exitOverride()
    .showHelpAfterError("Add --help to list all commands and options.")
    .configureHelp({ sortSubcommands: false });
  const command = (
    name: string,
    description: string,
    settings: Parameters<typeof addSettingOptions>[1] = ["config"],
  ): Command => addSettingOptions(program.command(name).description(description), settings);

  command("start", "run the gateway until SIGTERM or SIGINT", OF_SERVER)
    .alias("gateway")
    .action(async (options: Options) => (await import("../main.ts")).main(environmentWith(options)));
  command(
    "demo",
    "run a sandbox, a gateway in front of it, and five apps that send requests; no setup needed",
    OF_SERVER,
  ).action(async (options: Options) => (await import("./demo-run.ts")).runDemo(environmentWith(options)));
  command("check-config", "check the settings that a start would use, and list where each value comes from")
    .alias("config-check")
    .action(async (options: Options) =>
      (await import("./check-config.ts")).checkConfig(environmentWith(options)),
    );
  command(
    "doctor",
    "check what a start would need: settings, files, Redis, the property API, limits of the system",
  )
    .option("--call", "also send one signed call to the property API")
    .action(async (options: Options) =>
      (await import("./doctor.ts")).runDoctor(environmentWith(options), options["call"] === true),
    );
  command("health", "check whether a running gateway accepts requests", ["config", "adminHost", "adminPort"])
    .alias("health-check")
    .argument("[url]", "URL to check (default: /readyz of the admin port in the settings)")
    .action(async (url: string | undefined, options: Options) =>
      (await import("./health.ts")).checkHealth(environmentWith(options), url),
    );
  command("adopt-data", "assign DATA_DIR to the account in the settings").action(async (options: Options) =>
    (await import("./adopt-data.ts")).adoptData(environmentWith(options)),
  );
  addSandbox(program);
  addAdminCommands(program);
  for (const one of program.commands) one.version(build.version).allowExcessArguments(false);
  return program;
}

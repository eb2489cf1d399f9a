/**
 * The command line. Each command loads its larger dependencies only when it runs. docs/admin.md describes the commands and
 * exit codes.
 */
import { Command, CommanderError } from "commander";

import { build } from "../telemetry/process-metrics.ts";
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

function createProgram(): Command {
  const program = new Command("property-gateway")
    .description("A gateway in front of a property API: few upstream calls, fresh answers.")
    .version(build.version)
    .exitOverride()
    .showHelpAfterError("Add --help to list all commands and options.")
    .configureHelp({ sortSubcommands: false });
  addServers(program);
  addSandbox(program);
  addChecks(program);
  addAdminCommands(program);
  for (const command of program.commands) command.version(build.version).allowExcessArguments(false);
  return program;
}

function addServers(program: Command): void {
  const start = program
    .command("start")
    .alias("gateway")
    .description("run the gateway until SIGTERM or SIGINT")
    .action(async (options: SettingOptions) => {
      const { main } = await import("../main.ts");
      await main(environmentWith(options));
    });
  const demo = program
    .command("demo")
    .description("run a sandbox, a gateway in front of it and some sample traffic; no setup needed")
    .action(async (options: SettingOptions) => {
      const { runDemo } = await import("./demo-run.ts");
      await runDemo(environmentWith(options));
    });
  for (const command of [start, demo]) addSettingOptions(command, SERVER_OPTIONS);
}

function addChecks(program: Command): void {
  const check = program
    .command("check-config")
    .alias("config-check")
    .description("check the settings that a start would use, and list where each value comes from")
    .action(async (options: SettingOptions) => {
      const { checkConfig } = await import("./check-config.ts");
      checkConfig(environmentWith(options));
    });
  const doctor = program
    .command("doctor")
    .description(
      "check what a start would need: settings, files, Redis, the property API, limits of the system",
    )
    .option("--call", "also send one signed call to the property API")
    .action(async (options: SettingOptions & { readonly call?: true }) => {
      const { runDoctor } = await import("./doctor.ts");
      await runDoctor(environmentWith(options), options.call === true);
    });
  const health = program
    .command("health")
    .alias("health-check")
    .description("check whether a running gateway accepts requests")
    .argument("[url]", "URL to check (default: /readyz of the admin port in the settings)")
    .action(async (url: string | undefined, options: SettingOptions) => {
      const { checkHealth } = await import("./health.ts");
      await checkHealth(url, options);
    });
  const adopt = program
    .command("adopt-data")
    .description("assign DATA_DIR to the account in the settings")
    .action(async (options: SettingOptions) => {
      const { adoptData } = await import("./adopt-data.ts");
      adoptData(environmentWith(options));
    });
  for (const command of [check, doctor, adopt]) addSettingOptions(command, ["config"]);
  addSettingOptions(health, ["config", "adminHost", "adminPort"]);
}

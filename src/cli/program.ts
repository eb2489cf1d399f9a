/**
 * The command line: `property-gateway <command>`. Each command has a file of its own, and loads its larger dependencies
 * only when it runs. docs/cli.md describes the commands and exit codes.
 */
import { Command, CommanderError } from "commander";

import { build } from "../telemetry/process-metrics.ts";
import { addAdoptData } from "./adopt-data.ts";
import { addBudget } from "./budget.ts";
import { addCheckConfig } from "./check-config.ts";
import { addDemo } from "./demo.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { addExplain } from "./explain.ts";
import { addHealth } from "./health.ts";
import { addPurge } from "./purge.ts";
import { addReport } from "./report.ts";
import { addSandbox } from "./sandbox.ts";
import { addStart } from "./start.ts";
import { addStatus } from "./status.ts";
import { addUsage } from "./usage.ts";
import { addWarm } from "./warm.ts";

const COMMANDS = [
  addStart,
  addDemo,
  addSandbox,
  addCheckConfig,
  addHealth,
  addStatus,
  addExplain,
  addUsage,
  addBudget,
  addPurge,
  addWarm,
  addReport,
  addAdoptData,
];

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
  for (const add of COMMANDS) add(program);
  for (const command of program.commands) command.version(build.version).allowExcessArguments(false);
  return program;
}

import { CommanderError } from "commander";

/** Exit codes of every command (docs/admin.md). */
export const EXIT = {
  /** The command failed, or the result of its check is negative. */
  failed: 1,
  /** The command line has a mistake. */
  usage: 2,
  /** The admin port of the gateway cannot be reached, or its answer breaks off. */
  unreachable: 3,
} as const;

/** Ends a command with a message for people and an exit code. */
export class CommandFailure extends CommanderError {
  constructor(message: string, exitCode: number = EXIT.failed) {
    super(exitCode, "failure", message);
  }
}

/**
 * Runs the command lines that its parent sends, one after the other, each with its own environment, and sends back what
 * each one wrote and its exit code. Ends with its parent.
 */
import { runCommand } from "../../src/cli/program.ts";
import type { CommandLine, Finished } from "./command.ts";

async function finish({ args, env }: CommandLine): Promise<Finished> {
  const { stdout, stderr } = process;
  const writeOut = stdout.write.bind(stdout);
  const writeError = stderr.write.bind(stderr);
  let output = "";
  const keep = (chunk: unknown): boolean => {
    output += String(chunk);
    return true;
  };
  process.env = { ...env };
  process.exitCode = 0;
  stdout.write = keep;
  stderr.write = keep;
  try {
    await runCommand(args);
    return { code: process.exitCode, output };
  } finally {
    stdout.write = writeOut;
    stderr.write = writeError;
    process.exitCode = 0;
  }
}

let last: Promise<unknown> = Promise.resolve();
process.on("message", (line: CommandLine) => {
  last = last.then(async () => process.send?.(await finish(line)));
});
process.on("disconnect", () => process.exit());

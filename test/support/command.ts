/**
 * Commands that end by themselves. One process runs them all: most of what a command costs is the start of Node. A test
 * that needs a process of its own (signals, a command that goes on) uses process.ts.
 */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

import { runMark } from "./leftovers.ts";

export interface CommandLine {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface Finished {
  readonly code: number;
  /** Standard output and standard error. */
  readonly output: string;
}

let host: ChildProcess | undefined;
const waiting: PromiseWithResolvers<Finished>[] = [];

/** Runs a command to its end, with nothing of this process' environment but what is given. */
export function command(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Finished> {
  host ??= startHost();
  const finished = Promise.withResolvers<Finished>();
  waiting.push(finished);
  host.send({ args, env } satisfies CommandLine);
  return finished.promise;
}

function startHost(): ChildProcess {
  const script = fileURLToPath(new URL("command-host.ts", import.meta.url));
  const child = fork(script, { env: runMark(), stdio: ["ignore", "ignore", "inherit", "ipc"], execArgv: [] });
  child.on("message", (finished: Finished) => waiting.shift()?.resolve(finished));
  child.on("exit", (code) => {
    host = undefined;
    for (const { reject } of waiting.splice(0)) reject(new Error(`the commands' process ended with ${code}`));
  });
  // It ends when this process ends, and does not keep it alive.
  child.unref();
  child.channel?.unref();
  return child;
}

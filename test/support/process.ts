/** The project's own commands as processes, with the project's own Node. */
import { spawn, type ChildProcess, type ChildProcessByStdio } from "node:child_process";
import { readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";

import { onTestFinished } from "vitest";

import { runMark } from "./leftovers.ts";

export type Running = ReturnType<typeof follow>;

type Env = Readonly<Record<string, string>>;

/**
 * Runs `src/start.mjs` with arguments and nothing of this process' environment but what is given. The process ends with
 * the test.
 */
export const run = (...parameters: Parameters<typeof start>): Running => endedWithTest(start(...parameters));

/** The same for several tests: the hook that starts the process ends it too. */
export function start(args: readonly string[], env: Env = {}): Running {
  return spawnAndFollow(process.execPath, ["src/start.mjs", ...args], { ...runMark(), ...env });
}

/** The same in a terminal of its own. @returns also what types keys there */
export function runInTerminal(args: readonly string[], env: Env) {
  const line = [process.execPath, "src/start.mjs", ...args].join(" ");
  const stdio: ["pipe", "pipe", "pipe"] = ["pipe", "pipe", "pipe"];
  const child = spawn("script", ["-qefc", line, "/dev/null"], { env: { ...runMark(), ...env }, stdio });
  return { ...endedWithTest(follow(child)), type: (keys: string) => void child.stdin.write(keys) };
}

/** Runs what a script of package.json runs. */
export const runScript = (name: string, env: Env): Running =>
  runProgram(process.execPath, argumentsOf(name), { ...runMark(), ...env });

/** @returns Node's arguments in a script of package.json */
export function argumentsOf(name: string): string[] {
  const { scripts }: { scripts: Record<string, string> } = JSON.parse(readFileSync("package.json", "utf8"));
  const [program, ...args] = scripts[name]?.replace(/^exec /, "").split(" ") ?? [];
  if (program !== "node") throw new Error(`the script ${name} does not run Node`);
  return args;
}

function endedWithTest(running: Running): Running {
  onTestFinished(async () => void (await running.kill("SIGKILL")));
  return running;
}

/** Runs another program, by default with the environment of this process. It ends with the test. */
export function runProgram(...parameters: Parameters<typeof spawnAndFollow>): Running {
  return endedWithTest(spawnAndFollow(...parameters));
}

function spawnAndFollow(program: string, args: readonly string[], env?: Env): Running {
  return follow(spawn(program, args, { ...(env && { env }), stdio: ["ignore", "pipe", "pipe"] }));
}

/** Collects the piped output of a process. The caller ends the process. */
export function follow(child: ChildProcessByStdio<Writable | null, Readable, Readable>) {
  let written = "";
  const listeners = new Set<() => void>();
  const onData = (chunk: Buffer): void => {
    written += chunk.toString();
    for (const listener of listeners) listener();
  };
  child.stdout.on("data", onData);
  child.stderr.on("data", onData);
  /** Exit code, or the signal that ended it. */
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
    child.on("close", (code, signal) => resolve(code ?? signal));
  });
  return {
    child: child as ChildProcess,
    ended,
    /** Sends a signal. @returns `ended` */
    kill: (signal: NodeJS.Signals): typeof ended => {
      child.kill(signal);
      return ended;
    },
    /** Everything written so far. */
    output: () => written,
    /** Resolves with the match as soon as the output has it; rejects if the process ends before that. */
    says: (pattern: RegExp): Promise<RegExpExecArray> => {
      const { promise, resolve, reject } = Promise.withResolvers<RegExpExecArray>();
      const look = (): void => {
        const match = pattern.exec(written);
        if (match) resolve(match);
      };
      listeners.add(look);
      look();
      void ended.then((code) =>
        reject(new Error(`ended with ${code} before saying ${pattern}:\n${written}`)),
      );
      return promise;
    },
  };
}

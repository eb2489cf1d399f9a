/**
 * Finds what a run of the tests has left behind: directories and processes. (A port that is still open belongs to a
 * process that is still alive.)
 *
 * The run gets a directory of its own for temporary files and a mark in its environment. Child processes inherit both
 * (or get the mark from `runMark`), so every leftover is recognised.
 */
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

export type TestRun = ReturnType<typeof prepareRun>;

const MARK = "PROPERTY_GATEWAY_TEST_RUN";

/** The mark of this run, for a child process that does not inherit the environment. */
export function runMark(): Record<string, string> {
  const directory = process.env[MARK];
  return directory === undefined ? {} : { [MARK]: directory };
}
/** A process that is stopping may need a moment. */
const GRACE_MS = 2_000;
/** Directories of tools that outlive a run on purpose. */
const KEPT = /^(node-compile-cache|node-jiti|vitest-)/;

export function prepareRun() {
  const directory = mkdtempSync(join(tmpdir(), "property-gateway-test-run-"));
  // Some tests run the gateway as another user.
  chmodSync(directory, 0o755);
  // Children that inherit the environment compile each file once: starting a process costs half as much.
  const compiled = join(directory, "node-compile-cache");
  /** `env`: environment variables for the run. */
  return { directory, env: { TMPDIR: directory, NODE_COMPILE_CACHE: compiled, [MARK]: directory } };
}

/**
 * Ends the processes and removes the directories that it finds.
 * @returns one line per leftover
 */
export async function findLeftovers({ directory }: TestRun): Promise<string[]> {
  for (let waitedMs = 0; waitedMs < GRACE_MS && processesOf(directory).length > 0; waitedMs += 100)
    await setTimeout(100);
  const processes = processesOf(directory);
  const directories = readdirSync(directory).filter((name) => !KEPT.test(name));
  for (const { pid } of processes) process.kill(pid, "SIGKILL");
  rmSync(directory, { recursive: true, force: true });
  return [
    ...processes.map(({ pid, command }) => `process ${pid}: ${command}`),
    ...directories.map((name) => `directory ${join(directory, name)}`),
  ];
}

/** Running processes of a test run. Only Linux shows them; elsewhere the list is empty. */
function processesOf(directory: string): { readonly pid: number; readonly command: string }[] {
  const mark = `${MARK}=${directory}`;
  const names = existsSync("/proc") ? readdirSync("/proc") : [];
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number);
  return pids.flatMap((pid) => {
    try {
      // Redis overwrites its environment, so its working directory is used, deleted or not.
      const isMarked = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(mark);
      if (!isMarked && !readlinkSync(`/proc/${pid}/cwd`).startsWith(directory)) return [];
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
      // A zombie has no command line: it has ended, and only its parent has not noticed.
      return command === "" ? [] : [{ pid, command }];
    } catch {
      return []; // It has ended meanwhile, or belongs to somebody else.
    }
  });
}

/** What the tests use that neither npm's lock file nor the system has: loaded once, and kept where `npm ci` clears it away. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { installFromDebian } from "./debian.ts";

const PROJECT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const CACHE = join(PROJECT, "node_modules/.cache/property-gateway-tools");

/** Runs a program. @returns what it wrote; what it wrote to standard error is in the error it throws */
export function call(command: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}${stdout}`);
  return stdout;
}

/** @returns the directory of that name, filled the first time it is asked for; whole, or not there at all */
export function cached(name: string, fill: (directory: string) => void): string {
  const directory = join(CACHE, name);
  if (existsSync(directory)) return directory;
  console.log(`tools: ${name} not found: loading it, to be kept in node_modules/.cache`);
  mkdirSync(CACHE, { recursive: true });
  const unfinished = mkdtempSync(join(CACHE, ".unfinished-"));
  try {
    fill(unfinished);
    // Where another test file was faster, its directory is as good.
    if (!existsSync(directory)) renameSync(unfinished, directory);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return directory;
}

/** Puts packages of npm, each as name@version, into a directory; none of their scripts is run. */
export function installFromNpm(directory: string, ...packages: string[]): void {
  const quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"];
  call("npm", "install", ...quiet, "--legacy-peer-deps", "--omit=peer", "--prefix", directory, ...packages);
}

/** Python unpacks archives and fetches wheels; installs it, with pip, where it is missing. */
export function needPython(): void {
  const hasPip = (): boolean => spawnSync("python3", ["-m", "pip", "--version"]).status === 0;
  if (hasPip()) return;
  console.log("tools: no Python with pip found: installing Debian's package python3-pip");
  installFromDebian("python3-pip");
  if (!hasPip()) throw new Error("The tests need python3 with pip (`apt-get install python3-pip`).");
}

/**
 * `npm test` finds or installs the programs that the tests need, says so in one line each, and runs all tests.
 * `npm run test:long` runs the long ones instead: more seeds, more chaos, `*.long.ts`.
 *
 * At the end it checks that the tests have left nothing behind: no process, and so no port, and no directory.
 */
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { findLeftovers, prepareRun } from "./support/leftovers.ts";
import { installFromDebian } from "./support/debian.ts";
import { loadTools } from "./support/tools.ts";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const OLDEST_NODE = 24;

function giveUp(message: string): never {
  console.error(message);
  process.exit(1);
}

function checkNode(): void {
  if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
    giveUp(
      `The tests need Node ${OLDEST_NODE} or newer; this is ${process.versions.node}. Run \`npm ci && npm test\`: ` +
        "npm installs the Node the project pins. Where it has none for your platform, install one by hand.",
    );
  }
  const whose = process.execPath.startsWith(root) ? "the project's own" : "this machine's";
  console.log(`node       ${process.version} (${whose})`);
}

/** A program the tests use that npm does not have. */
interface Program {
  readonly title: string;
  readonly command: string;
  /** Debian's, and most other systems'. */
  readonly package: string;
  /** Makes the program print its version. The default is `--version`. */
  readonly flag?: string;
  /** Finds the version in what it prints. */
  readonly version: RegExp;
  readonly oldest: number;
}

/** The tests start their own servers, on free ports of 127.0.0.1. */
const PROGRAMS: readonly Program[] = [
  { title: "redis", command: "redis-server", package: "redis-server", version: /v=(\d[\d.]*)/, oldest: 7 },
  ...["prometheus", "promtool"].map((command) => ({
    title: command,
    command,
    package: "prometheus",
    version: /version (\d[\d.]*)/,
    oldest: 2,
  })),
  {
    title: "systemd",
    command: "systemd-analyze",
    package: "systemd",
    version: /systemd (\d+)/,
    oldest: 250,
  },
  { title: "curl", command: "curl", package: "curl", version: /curl (\d[\d.]*)/, oldest: 7 },
  {
    title: "chromium",
    command: "chromium",
    package: "chromium",
    version: /Chromium (\d[\d.]*)/,
    oldest: 120,
  },
  {
    title: "nginx",
    command: "nginx",
    package: "nginx-light",
    flag: "-v",
    version: /nginx\/(\d[\d.]*)/,
    oldest: 1,
  },
];

/** The version of a program on the path; `undefined` where there is none. */
function versionOf({ command, flag = "--version", version }: Program): string | undefined {
  // Some say it on the standard output, some on the other.
  const { status, stdout, stderr } = spawnSync(command, [flag], { encoding: "utf8" });
  return status === 0 ? version.exec(stdout + stderr)?.[1] : undefined;
}

/** Finds a program, or installs Debian's. */
function find(program: Program): void {
  const title = program.title.padEnd(11);
  let how = "found";
  if (versionOf(program) === undefined) {
    console.log(`${title}not found: installing Debian's package ${program.package}`);
    how = "installed";
    installFromDebian(program.package);
  }
  const version = versionOf(program);
  if (version === undefined || Number.parseInt(version, 10) < program.oldest) {
    giveUp(
      `The tests need ${program.command} ${program.oldest} or newer on the path (found: ${version ?? "none"}). Install ` +
        `it with your system's package manager (\`apt-get install ${program.package}\`, say), and run this again.`,
    );
  }
  console.log(`${title}${version} (${how})`);
}

checkNode();
for (const program of PROGRAMS) find(program);
console.log(`helm       ${loadTools()}`);
console.log("upstream   the sandbox, started by the tests on free ports of 127.0.0.1");
const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
const isLong = process.argv[2] === "--long";
const run = prepareRun();
const { status } = spawnSync(process.execPath, [vitest, "run", ...process.argv.slice(isLong ? 3 : 2)], {
  cwd: root,
  stdio: "inherit",
  env: { ...process.env, ...run.env, ...(isLong && { TEST_LONG: "1" }) },
});
const leftovers = await findLeftovers(run);
for (const leftover of leftovers) console.error(`left behind by the tests: ${leftover}`);
process.exit(leftovers.length > 0 ? 1 : (status ?? 1));

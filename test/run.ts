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
import { installFromDebian, loadTools } from "./support/tools.ts";

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
  console.log(`node: ${process.version} (${whose})`);
}

/**
 * Programs that the tests use and npm does not have: the oldest version that will do, and Debian's package. The tests start
 * their own servers, on free ports of 127.0.0.1.
 */
const PROGRAMS: readonly (readonly [command: string, oldest: number, debian?: string])[] = [
  ["redis-server", 7],
  ["prometheus", 2],
  ["promtool", 2, "prometheus"],
  ["systemd-analyze", 250, "systemd"],
  ["curl", 7],
  ["chromium", 120],
  ["nginx", 1, "nginx-light"],
];

/** The version of a program on the path; `undefined` where there is none. */
function versionOf(command: string): string | undefined {
  const flag = command === "nginx" ? "-v" : "--version";
  // Some say it on the standard output, some on the other.
  const { status, stdout, stderr } = spawnSync(command, [flag], { encoding: "utf8" });
  return status === 0 ? /[ =/](\d[\d.]*)/.exec(stdout + stderr)?.[1] : undefined;
}

/** Finds a program, or installs Debian's. */
function find([command, oldest, debian = command]: (typeof PROGRAMS)[number]): void {
  let how = "found";
  if (versionOf(command) === undefined) {
    console.log(`${command}: not found: installing Debian's package ${debian}`);
    how = "installed";
    installFromDebian(debian);
  }
  const version = versionOf(command);
  if (version === undefined || Number.parseInt(version, 10) < oldest) {
    giveUp(
      `The tests need ${command} ${oldest} or newer on the path (found: ${version ?? "none"}). Install it ` +
        `with your system's package manager (\`apt-get install ${debian}\`, say), and run this again.`,
    );
  }
  console.log(`${command}: ${version} (${how})`);
}

checkNode();
for (const program of PROGRAMS) find(program);
console.log(`helm: ${loadTools()}`);
console.log("upstream: the sandbox, started by the tests on free ports of 127.0.0.1");
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

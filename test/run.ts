/**
 * `npm test`: sees to what the tests need, says so in a line each, and runs them all.
 */
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { obtainHelmTools } from "./support/helm-tools.ts";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const OLDEST_NODE = 24;
const OLDEST_REDIS = 7;

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
  console.log(`node      ${process.version} (${whose})`);
}

/** The version of the Redis on the path; `undefined` where there is none. */
function redisVersion(): string | undefined {
  const { status, stdout } = spawnSync("redis-server", ["--version"], { encoding: "utf8" });
  return status === 0 ? /v=(\d[\d.]*)/.exec(stdout)?.[1] : undefined;
}

/** Finds a real Redis, or installs Debian's. The tests start their own servers, on free ports of 127.0.0.1. */
function findRedis(): void {
  let how = "found";
  if (redisVersion() === undefined) {
    console.log("redis     not found: installing Debian's package redis-server");
    how = "installed";
    const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
    for (const args of [
      ["update", "-qq"],
      ["install", "-qq", "-y", "--no-install-recommends", "redis-server"],
    ]) {
      const [command = "", ...rest] = [...sudo, "apt-get", ...args];
      spawnSync(command, rest, { env, stdio: ["ignore", "ignore", "inherit"] });
    }
  }
  const version = redisVersion();
  if (version === undefined || Number.parseInt(version, 10) < OLDEST_REDIS) {
    giveUp(
      `The tests need redis-server ${OLDEST_REDIS} or newer on the path (found: ${version ?? "none"}). Install it with ` +
        "your system's package manager (`apt-get install redis-server`, `brew install redis`), and run this again.",
    );
  }
  console.log(`redis     ${version} (${how})`);
}

checkNode();
findRedis();
console.log(`helm      ${obtainHelmTools()}`);
console.log("upstream  the sandbox, started by the tests on free ports of 127.0.0.1");
const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
const { status } = spawnSync(process.execPath, [vitest, "run", ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
});
process.exit(status ?? 1);

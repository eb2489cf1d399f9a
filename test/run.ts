/**
 * `npm test`: sees to what the tests need, says so in a line each, and runs them all.
 */
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const oldestNode = 24;

if (Number.parseInt(process.versions.node, 10) < oldestNode) {
  console.error(
    `The tests need Node ${oldestNode} or newer; this is ${process.versions.node}. Run \`npm ci && npm test\`: ` +
      "npm installs the Node the project pins. Where it has none for your platform, install one by hand.",
  );
  process.exit(1);
}
console.log(
  `node      ${process.version} (${process.execPath.startsWith(root) ? "the project's own" : "this machine's"})`,
);
console.log("upstream  the sandbox, started by the tests on free ports of 127.0.0.1");

const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
const { status } = spawnSync(process.execPath, [vitest, "run", ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
});
process.exit(status ?? 1);

/** `npm run cache-tests -- DIR`: plays a checkout of http-tests/cache-tests. The exit code is that of the tests. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

const [directory = ""] = process.argv.slice(2);
if (!existsSync(join(directory, "tests", "index.mjs"))) {
  console.error(
    "Name the directory of a checkout: git clone https://github.com/http-tests/cache-tests && " +
      "npm run cache-tests -- ./cache-tests",
  );
  process.exit(2);
}
const { status } = spawnSync("npx", ["vitest", "run"], {
  stdio: "inherit",
  env: { ...process.env, CACHE_TESTS: resolve(directory) },
});
process.exit(status ?? 1);

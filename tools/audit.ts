/**
 * `npm run audit`: checks the versions in the lock file for known vulnerabilities. Some registries do not support audits.
 * The program then reports that nothing was checked, and does not fail.
 */
import { spawnSync } from "node:child_process";

/** The lowest severity that counts. Development packages are checked, too. */
const LEVEL = "moderate";

const { status, stdout } = spawnSync("npm", ["audit", "--json", `--audit-level=${LEVEL}`], {
  encoding: "utf8",
});
const report = parsed(stdout);
if (report === undefined || !("vulnerabilities" in report)) {
  const code: unknown = report === undefined ? undefined : Reflect.get(report, "statusCode");
  const reason = typeof code === "number" ? `HTTP ${code}` : "not reached";
  console.log(`audit     not checked: this registry does not support audits (${reason})`);
} else if (status === 0) {
  console.log(`audit     no known vulnerability of level ${LEVEL} or above`);
} else {
  spawnSync("npm", ["audit", `--audit-level=${LEVEL}`], { stdio: "inherit" });
  process.exitCode = 1;
}

function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

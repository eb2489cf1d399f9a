/**
 * `npm run audit`: whether anything is known against the versions in the lock file. Not every registry answers that
 * question; where this one does not, that is said, and is no failure: nothing was found, and nothing was looked for.
 */
import { spawnSync } from "node:child_process";

/** The least serious finding that counts; development's own packages are included. */
const LEVEL = "moderate";

const { status, stdout } = spawnSync("npm", ["audit", "--json", `--audit-level=${LEVEL}`], {
  encoding: "utf8",
});
const report = parsed(stdout);
if (report === undefined || !("vulnerabilities" in report)) {
  const code: unknown = report === undefined ? undefined : Reflect.get(report, "statusCode");
  const reason = typeof code === "number" ? `HTTP ${code}` : "not reached";
  console.log(`audit     not checked: this registry answers no audits (${reason})`);
} else if (status === 0) {
  console.log(`audit     nothing known at level ${LEVEL} or above`);
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

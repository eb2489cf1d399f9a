/** Debian's packages, for what the tests need and npm does not have. */
import { spawnSync } from "node:child_process";

/** Installs packages as far as it can; whoever asked looks whether they are there. What goes wrong is on stderr. */
export function installFromDebian(...packages: string[]): void {
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
  // Test files run side by side, and only one apt at a time may.
  const wait = ["-o", "DPkg::Lock::Timeout=300"];
  for (const args of [
    ["update", "-qq"],
    ["install", "-qq", "-y", "--no-install-recommends", ...packages],
  ]) {
    const [command = "", ...rest] = [...sudo, "apt-get", ...wait, ...args];
    spawnSync(command, rest, { env, stdio: ["ignore", "ignore", "inherit"] });
  }
}

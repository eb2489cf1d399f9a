/** Debian's packages, for what the tests need and npm does not have. */
import { spawnSync } from "node:child_process";

/**
 * As root. Packages of servers start them; a machine that runs the tests wants none of that. Debian's way
 * to say so is the file policy-rc.d (RUNLEVEL is for machines without systemd); where somebody has one, it stays.
 * Only one apt at a time may run, so it waits for another.
 */
const INSTALL = `
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\\nexit 101\\n' > "$policy" && chmod 755 "$policy"
fi
wait='-o DPkg::Lock::Timeout=300'
apt-get $wait update -qq
apt-get $wait install -qq -y --no-install-recommends "$@"
`;

/** Installs packages as far as it can; whoever asked looks whether they are there. What goes wrong is on stderr. */
export function installFromDebian(...packages: string[]): void {
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  const [command = "", ...rest] = [...sudo, "sh", "-c", INSTALL, "install", ...packages];
  spawnSync(command, rest, { stdio: ["ignore", "ignore", "inherit"] });
}

/** Debian's packages, for what the tests need and npm does not have. */
import { spawnSync } from "node:child_process";

/**
 * Runs as root. Packages of servers start their servers, which the tests do not want. The file policy-rc.d prevents it
 * (RUNLEVEL does without systemd); an existing one stays. Only one apt can run at a time, so this one waits.
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

/** Installs packages as far as possible. The caller checks whether they are there. Errors are on stderr. */
export function installFromDebian(...packages: string[]): void {
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  const [command = "", ...rest] = [...sudo, "sh", "-c", INSTALL, "install", ...packages];
  spawnSync(command, rest, { stdio: ["ignore", "ignore", "inherit"] });
}

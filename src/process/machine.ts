import { readFileSync } from "node:fs";
import { hostname } from "node:os";

import type { Listening } from "./listen.ts";

/**
 * @returns a text that no two running processes share: the machine since its last start, and where the process listens
 * on it. Nothing where the system does not tell its machines apart.
 */
export function addressOf({ host, port }: Listening): string | undefined {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot} ${hostname()} ${host}:${port}`;
  } catch {
    return undefined;
  }
}

/** The number of files and connections that this process may have open (`ulimit -n`). */
import { readFileSync } from "node:fs";

import { attempt } from "./attempt.ts";

/** @returns the limit in force; `undefined` if the system does not tell */
export function openFilesLimit(): number | undefined {
  const limits = attempt(() => readFileSync("/proc/self/limits", "utf8")) ?? "";
  const [, limit] = /^Max open files +(\d+) /m.exec(limits) ?? [];
  return limit === undefined ? undefined : Number(limit);
}

/** For files, the log, Redis, DNS and the trace collector. */
const OTHERS = 100;
const PORTS = 2;
/** Each port accepts a tenth more connections than its limit, to refuse them with an answer. */
const WITH_SPARE = 1.1;

/**
 * @param limit of open files
 * @param calls the most calls to the upstream at once
 * @returns the most connections that each port can have, so that calls still find a file descriptor
 */
export function connectionsThatFit(limit: number, calls: number): number {
  return Math.max(1, Math.floor((limit - OTHERS - calls) / PORTS / WITH_SPARE));
}

/** CPU time of other processes, by the kernel's own accounting. */
import { readdirSync, readFileSync } from "node:fs";

/** @returns the CPU time that a process and its children have used so far, milliseconds */
export function cpuMsOf(pid: number): number {
  let ms = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const path = `/proc/${pid}/task/${thread}`;
    // A thread or a child may end meanwhile.
    const [nanoseconds = "0"] = read(`${path}/schedstat`).split(" ");
    ms += Number(nanoseconds) / 1e6;
    for (const child of read(`${path}/children`).split(" ").filter(Boolean)) ms += cpuMsOf(Number(child));
  }
  return ms;
}

/** @returns the memory that belongs to a process alone or in part, bytes */
export function memoryOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(read(`/proc/${pid}/status`))?.[1] ?? Number.NaN) * 1024;
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1").trim();
  } catch {
    return "";
  }
}

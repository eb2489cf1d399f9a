/** A gateway process at fixed ports that can be killed, stopped, frozen and started again. */
import { readFileSync } from "node:fs";

import { ask } from "../support/ask.ts";
import { start, type Running } from "../support/process.ts";
import { lasting, polled } from "./lasting.ts";

/** For how long a process could not be expected to answer. */
interface Absence {
  readonly kind: "killed" | "frozen";
  readonly from: number;
  /** Infinity while it lasts. */
  to: number;
}

export interface Member {
  readonly name: string;
  readonly url: string;
  readonly admin: string;
  /** A load balancer sends requests here. A frozen process gets requests too. */
  readonly isListed: () => boolean;
  /** No fault is in progress here. */
  readonly isCalm: () => boolean;
  /** Since when no fault has been in progress, epoch milliseconds. */
  readonly calmSince: () => number;
  readonly pid: () => number | undefined;
  readonly begin: () => Promise<void>;
  readonly kill: () => Promise<void>;
  readonly stop: () => Promise<void>;
  readonly freeze: (ms: number) => Promise<void>;
  /** Whether connections may have been lost in that time because the process was killed. */
  readonly wasKilled: (from: number, to: number) => boolean;
  /** For how much of that time it was frozen. */
  readonly frozenMs: (from: number, to: number) => number;
  /** All that it has written. */
  readonly output: () => string;
}

/** The setting `server.stopDelay`: how long a process that stops still takes requests. */
export const STOP_DELAY_MS = 1_000;
/** A load balancer notices within this time that a replica stops. */
const NOTICED_MS = 500;
const STARTED_WITHIN_MS = 60_000;

export function createMember(
  name: string,
  [port, adminPort]: readonly [number, number],
  env: Readonly<Record<string, string>>,
  now: () => number,
): Member {
  const admin = `http://127.0.0.1:${adminPort}`;
  const absences: Absence[] = [];
  let written = "";
  let running: Running | undefined;
  let isListed = false;
  let isCalm = false;
  let calmSince = now();

  const absent = (kind: Absence["kind"]): Absence => {
    const absence = { kind, from: now(), to: Number.POSITIVE_INFINITY };
    absences.push(absence);
    isCalm = false;
    return absence;
  };
  async function isReady(): Promise<boolean> {
    return (await ask(`${admin}/readyz`, { signal: AbortSignal.timeout(2_000) })).status === 200;
  }
  async function begin(): Promise<void> {
    // A port may be in use for a moment, by a connection of another process.
    for (let tries = 0; !isListed; tries++) {
      running = start(["start"], { ...env, PORT: String(port), ADMIN_PORT: String(adminPort) });
      const ended = running.ended.then((code) => code ?? 1);
      const result = await Promise.race([polled(isReady, STARTED_WITHIN_MS), ended]);
      if (result === true) isListed = true;
      else if (tries >= 3) throw new Error(`${name} does not start: ${result}\n${running.output()}`);
      else running.child.kill("SIGKILL");
    }
    for (const absence of absences) absence.to = Math.min(absence.to, now());
    isCalm = true;
    calmSince = now();
  }
  async function ended(): Promise<void> {
    if (running === undefined) return;
    const code = await running.ended;
    written += running.output();
    running = undefined;
    if (code !== 0 && code !== "SIGKILL")
      throw new Error(`${name} ended with ${code}\n${written.slice(-4_000)}`);
  }
  return {
    name,
    url: `http://127.0.0.1:${port}`,
    admin,
    isListed: () => isListed,
    isCalm: () => isCalm,
    calmSince: () => calmSince,
    pid: () => running?.child.pid,
    begin,
    async kill() {
      absent("killed");
      isListed = false;
      running?.child.kill("SIGKILL");
      await ended();
    },
    async stop() {
      isCalm = false;
      running?.child.kill("SIGTERM");
      await lasting(NOTICED_MS);
      isListed = false;
      await lasting(STOP_DELAY_MS - NOTICED_MS);
      await ended();
    },
    async freeze(ms) {
      const absence = absent("frozen");
      running?.child.kill("SIGSTOP");
      await lasting(ms);
      running?.child.kill("SIGCONT");
      absence.to = now();
      isCalm = true;
      calmSince = now();
    },
    wasKilled: (from, to) =>
      absences.some((absence) => absence.kind === "killed" && absence.from <= to && absence.to >= from),
    frozenMs: (from, to) =>
      absences
        .filter(({ kind }) => kind === "frozen")
        .reduce(
          (sum, absence) => sum + Math.max(0, Math.min(to, absence.to) - Math.max(from, absence.from)),
          0,
        ),
    output: () => written + (running?.output() ?? ""),
  };
}

/** Resident memory of a process in MiB; `undefined` where it has ended, or where only Linux tells. */
export function residentMiB(pid: number): number | undefined {
  try {
    const pages = Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]);
    return (pages * 4_096) / 1_048_576;
  } catch {
    return undefined;
  }
}

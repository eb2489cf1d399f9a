/** A gateway process that can be killed, stopped, frozen and started again. */
import { readFileSync } from "node:fs";
import { setTimeout as lasting } from "node:timers/promises";

import { ask } from "../support/ask.ts";
import { freePorts } from "../support/ports.ts";
import { start, type Running } from "../support/process.ts";

export type Member = ReturnType<typeof createMember>;

/** The setting `server.stopDelay`: how long a process that stops still takes requests. */
export const STOP_DELAY_MS = 1_000;
/** A load balancer notices within this time that a replica stops. */
const NOTICED_MS = 500;

export function createMember(name: string, env: Readonly<Record<string, string>>) {
  /** When the process was killed or frozen. `to`: Infinity while it lasts. */
  const absences: { readonly from: number; to: number }[] = [];
  let [port, adminPort] = [0, 0];
  let written = "";
  let running: Running | undefined;
  let isListed = false;
  let calmSince = Number.POSITIVE_INFINITY;

  const admin = (): string => `http://127.0.0.1:${adminPort}`;
  function leaves(): void {
    absences.push({ from: Date.now(), to: Number.POSITIVE_INFINITY });
    calmSince = Number.POSITIVE_INFINITY;
  }
  function isBack(): void {
    for (const absence of absences) absence.to = Math.min(absence.to, Date.now());
    calmSince = Date.now();
  }
  async function ended(): Promise<void> {
    const code = await running?.ended;
    written += running?.output() ?? "";
    running = undefined;
    if (code !== 0 && code !== "SIGKILL")
      throw new Error(`${name} ended with ${code}\n${written.slice(-4_000)}`);
  }
  return {
    name,
    /** Callers' and operators' addresses: others after each start. */
    url: () => `http://127.0.0.1:${port}`,
    admin,
    /** A load balancer sends requests here. A frozen process gets requests too. */
    isListed: () => isListed,
    /** Since when no fault has been in progress, epoch milliseconds. Infinity during a fault. */
    calmSince: () => calmSince,
    async begin() {
      [port = 0, adminPort = 0] = await freePorts(2);
      running = start(["start"], { ...env, PORT: String(port), ADMIN_PORT: String(adminPort) });
      const { child, output } = running;
      const readyz = () =>
        ask(`${admin()}/readyz`, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
      while ((await readyz())?.status !== 200) {
        if (child.exitCode !== null) throw new Error(`${name} does not start:\n${output()}`);
        await lasting(50);
      }
      isListed = true;
      isBack();
    },
    async kill() {
      leaves();
      isListed = false;
      running?.child.kill("SIGKILL");
      await ended();
    },
    async stop() {
      calmSince = Number.POSITIVE_INFINITY;
      running?.child.kill("SIGTERM");
      await lasting(NOTICED_MS);
      isListed = false;
      await ended();
    },
    async freeze(ms: number) {
      leaves();
      running?.child.kill("SIGSTOP");
      await lasting(ms);
      running?.child.kill("SIGCONT");
      isBack();
    },
    /** For how much of that time it was killed or frozen; `undefined` if it was not. */
    awayMs(from: number, to: number): number | undefined {
      const missed = absences.filter((absence) => absence.from <= to && absence.to >= from);
      if (missed.length === 0) return undefined;
      const msOf = (absence: (typeof absences)[number]): number =>
        Math.min(to, absence.to) - Math.max(from, absence.from);
      return missed.reduce((ms, absence) => ms + msOf(absence), 0);
    },
    /** Resident memory in MiB; `undefined` if it has ended, or if this is not Linux. */
    residentMiB: (): number | undefined => {
      try {
        const pages = Number(readFileSync(`/proc/${running?.child.pid}/statm`, "utf8").split(" ")[1]);
        return (pages * 4_096) / 1_048_576;
      } catch {
        return undefined;
      }
    },
    /** All that it has written. */
    output: () => written + (running?.output() ?? ""),
  };
}

/** Runs gateways, Redis and the sandbox under mixed traffic and faults, and reports what happened. */
import { setTimeout as lasting } from "node:timers/promises";

import { mostWithin } from "../support/arrivals.ts";
import { CALLER } from "../support/gateway.ts";
import { startInjector } from "./faults.ts";
import { IMAGE_WINDOW, openStack, USER_AGENTS, WINDOWS, type Stack } from "./stack.ts";
import { startTraffic } from "./traffic.ts";
import { createTruth } from "./truth.ts";

const PER_SECOND = 30;
const READ_CALLS_MS = 20_000;

/** @param signal ends the soak early, with a report */
export async function soak(minutes: number, seed: number, signal?: AbortSignal) {
  const stack = await openStack();
  const beganAt = Date.now();
  try {
    const truth = createTruth();
    const members = [...stack.replicas, stack.single];
    const calls = createCallLog(stack);
    const traffic = startTraffic(members, truth, seed, PER_SECOND);
    const injector = startInjector(stack, truth, seed);
    const until = beganAt + minutes * 60_000;
    const isOver = (): boolean => Date.now() >= until || signal?.aborted === true;
    while (!isOver()) {
      const ms = Math.min(READ_CALLS_MS, Math.max(0, until - Date.now()));
      await lasting(ms, undefined, { ...(signal && { signal }) }).catch(() => undefined);
      await calls.read();
    }
    const lasted = (Date.now() - beganAt) / 60_000;
    await injector.stop();
    await traffic.stop();
    await calls.read();
    const { counts } = traffic;
    for (const { name, output } of members) {
      if (!output().includes(CALLER.privateKey)) continue;
      counts.wrong += 1;
      counts.examples.push(`the output of ${name} contains the private key`);
    }
    const windows = calls.windows();
    const isKept = windows.every(({ most, limit }) => most <= limit);
    return {
      startedAt: new Date(beganAt).toISOString(),
      minutes: lasted,
      seed,
      ...counts,
      windows,
      calls: calls.total(),
      faults: injector.counts,
      /** Faults that could not be carried out: the soak has tested less than it says. */
      faultFailures: injector.failures,
      /** Of each process at the end. */
      residentMiB: Object.fromEntries(members.map(({ name, residentMiB }) => [name, residentMiB()])),
      isSmallDisk: stack.isSmallDisk,
      isClean: counts.wrong === 0 && counts.hung === 0 && isKept && injector.failures.length === 0,
    };
  } finally {
    await stack.close();
  }
}

interface Call {
  readonly at: number;
  readonly path: string;
  readonly userAgent: string;
}

function createCallLog({ control }: Stack) {
  const calls: Call[] = [];
  /** The most calls that any window of each length held, measured at the upstream. */
  const mostOf = (who: keyof typeof USER_AGENTS) => {
    const own = calls.filter(({ userAgent }) => userAgent === USER_AGENTS[who]);
    const most = (isImage: boolean, windowMs: number): number => {
      const counted = own.filter(({ path }) => path.startsWith("/cache/") === isImage);
      return mostWithin(
        counted.map(({ at }) => at),
        windowMs,
      );
    };
    return [
      ...WINDOWS.map((window) => ({ who, ...window, most: most(false, window.windowMs) })),
      { who: `${who}, thumbnails`, ...IMAGE_WINDOW, most: most(true, IMAGE_WINDOW.windowMs) },
    ];
  };
  return {
    /** Reads the calls that have come since the last time. The sandbox remembers 10,000. */
    async read() {
      const { counts, requests }: { counts: { total: number }; requests: Call[] } = Object(
        await control("GET", "/requests"),
      );
      const fresh = counts.total - calls.length;
      if (fresh > requests.length) throw new Error("the sandbox has forgotten calls");
      if (fresh > 0)
        calls.push(...requests.slice(-fresh).map(({ at, path, userAgent }) => ({ at, path, userAgent })));
    },
    total: () => calls.length,
    windows: () => [...mostOf("replicas"), ...mostOf("single")],
  };
}

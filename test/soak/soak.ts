/** Runs gateways, Redis and the sandbox under mixed traffic and faults, and reports what happened. */
import { mostWithin } from "../support/arrivals.ts";
import { CALLER } from "../support/gateway.ts";
import { startInjector } from "./faults.ts";
import { lasting } from "./lasting.ts";
import { createMemoryWatch, type MemoryUse } from "./memory.ts";
import { IMAGE_WINDOW, openStack, USER_AGENTS, WINDOWS, type Stack } from "./stack.ts";
import { startTraffic, type TrafficCounts } from "./traffic.ts";
import { createTruth } from "./truth.ts";

export interface SoakOptions {
  readonly minutes: number;
  readonly seed: number;
  /** Default 30. */
  readonly perSecond?: number;
  /** Ends the soak early, with a report. */
  readonly signal?: AbortSignal;
}

/** The most calls that any window of this length held, measured at the upstream. */
interface WindowUse {
  readonly who: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly most: number;
}

export interface SoakReport extends TrafficCounts {
  readonly startedAt: string;
  readonly minutes: number;
  readonly seed: number;
  readonly windows: readonly WindowUse[];
  /** Windows that held more than was agreed. */
  readonly over: number;
  readonly calls: number;
  readonly faults: Readonly<Record<string, number>>;
  /** Faults that could not be carried out: the soak has tested less than it says. */
  readonly faultFailures: readonly string[];
  readonly memory: readonly MemoryUse[];
  readonly isSmallDisk: boolean;
  readonly isClean: boolean;
}

const READ_CALLS_MS = 20_000;

export async function soak({ minutes, seed, perSecond = 30, signal }: SoakOptions): Promise<SoakReport> {
  const now = Date.now;
  const stack = await openStack(now);
  const beganAt = now();
  try {
    const truth = createTruth(now);
    const members = [...stack.replicas, stack.single];
    const calls = createCallLog(stack);
    const memory = createMemoryWatch(stack, now);
    const traffic = startTraffic({ members, truth, seed, perSecond, now, secrets: [CALLER.privateKey] });
    const injector = startInjector({ stack, truth, seed, now });
    const until = beganAt + minutes * 60_000;
    const isOver = (): boolean => now() >= until || signal?.aborted === true;
    while (!isOver()) {
      await lasting(Math.min(READ_CALLS_MS, Math.max(0, until - now())), signal);
      await calls.read();
    }
    const lasted = (now() - beganAt) / 60_000;
    await injector.stop();
    await traffic.stop();
    memory.stop();
    await calls.read();
    const { counts } = traffic;
    for (const { name, output } of members) {
      if (!output().includes(CALLER.privateKey)) continue;
      counts.wrong += 1;
      counts.examples.push(`the output of ${name} contains the private key`);
    }
    const windows = calls.windows();
    const over = windows.filter(({ most, limit }) => most > limit).length;
    return {
      startedAt: new Date(beganAt).toISOString(),
      minutes: lasted,
      seed,
      ...counts,
      windows,
      over,
      calls: calls.total(),
      faults: injector.counts,
      faultFailures: injector.failures,
      memory: memory.uses(),
      isSmallDisk: stack.isSmallDisk,
      isClean: counts.wrong === 0 && counts.hung === 0 && over === 0 && injector.failures.length === 0,
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

/** What the control port says. */
interface Calls {
  readonly counts: { readonly total: number };
  readonly requests: readonly Call[];
}

interface CallLog {
  /** Reads the calls that have come since the last time. The sandbox remembers 10,000. */
  readonly read: () => Promise<void>;
  readonly total: () => number;
  readonly windows: () => WindowUse[];
}

function createCallLog({ control }: Stack): CallLog {
  const calls: Call[] = [];
  const mostOf = (who: keyof typeof USER_AGENTS): WindowUse[] => {
    const own = calls.filter(({ userAgent }) => userAgent === USER_AGENTS[who]);
    const isImage = ({ path }: Call): boolean => path.startsWith("/cache/");
    const instants = (of: Call[]): number[] => of.map(({ at }) => at);
    const images = instants(own.filter(isImage));
    const others = instants(own.filter((call) => !isImage(call)));
    return [
      ...WINDOWS.map((window) => ({ who, ...window, most: mostWithin(others, window.windowMs) })),
      { who: `${who}, thumbnails`, ...IMAGE_WINDOW, most: mostWithin(images, IMAGE_WINDOW.windowMs) },
    ];
  };
  return {
    async read() {
      const { counts, requests }: Calls = Object(await control("GET", "/requests"));
      const fresh = counts.total - calls.length;
      if (fresh > requests.length) throw new Error("the sandbox has forgotten calls");
      if (fresh > 0)
        calls.push(...requests.slice(-fresh).map(({ at, path, userAgent }) => ({ at, path, userAgent })));
    },
    total: () => calls.length,
    windows: () => [...mostOf("replicas"), ...mostOf("single")],
  };
}

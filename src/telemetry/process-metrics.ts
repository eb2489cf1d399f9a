import { PROCESS } from "./catalogue.ts";
import type { Instruments } from "./instruments.ts";

/** What runs. */
export interface Build {
  readonly version: string;
  readonly node: string;
}

interface ProcessMetrics {
  readonly eventLoopDelay: (delayMs: number) => void;
}

/**
 * What runs, and how it does. The library's own default metrics are not used: their names break the
 * conventions (`promtool check metrics`).
 */
export function registerProcessMetrics(
  { histogram, sampled, sampledAlone }: Instruments,
  { version, node }: Build,
): ProcessMetrics {
  sampled(PROCESS.buildInfo, () => [[{ version, node }, 1]]);
  sampledAlone(PROCESS.cpuSeconds, () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000_000;
  });
  sampledAlone(PROCESS.residentBytes, () => process.memoryUsage.rss());
  sampledAlone(PROCESS.heapBytes, () => process.memoryUsage().heapUsed);
  sampledAlone(PROCESS.startTime, () => performance.timeOrigin / 1000);
  const delay = histogram(PROCESS.eventLoopDelay);
  return { eventLoopDelay: (delayMs) => delay.observe(delayMs / 1000) };
}

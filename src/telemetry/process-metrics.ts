/** Metrics of the process: version, CPU, memory, and the delay of the event loop. */
import manifest from "../../package.json" with { type: "json" };
import { PROCESS } from "./catalogue.ts";
import type { Instruments } from "./instruments.ts";

export interface Build {
  readonly version: string;
  readonly node: string;
}

/** The versions of the gateway and of Node in this process. */
export const build: Build = { version: manifest.version, node: process.version };

interface ProcessMetrics {
  readonly eventLoopDelay: (delayMs: number) => void;
}

/** Replaces the library's default metrics, whose names break the conventions (`promtool check metrics`). */
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

const EVENT_LOOP_INTERVAL_MS = 40;

/**
 * Measures again and again how late a timer fires. Everything that delays the event loop delays every caller. The
 * measurement always uses real time, because a fake clock does not show delays of the event loop.
 *
 * It reports every single delay, not a quantile since the last scrape. So the number of scrapers does not matter, and the
 * histograms of several processes can be added up.
 * @param report receives each delay in milliseconds
 * @returns a function that stops the measurement. The measurement does not keep the process alive.
 */
export function watchEventLoop(report: (delayMs: number) => void): () => void {
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    report(Math.max(0, now - last - EVENT_LOOP_INTERVAL_MS));
    last = now;
  }, EVENT_LOOP_INTERVAL_MS);
  timer.unref();
  return () => clearInterval(timer);
}

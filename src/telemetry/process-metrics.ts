/** Metrics of the process: version, CPU, memory, and the delay of the event loop. */
import manifest from "../../package.json" with { type: "json" };
import type { Instruments } from "./instruments.ts";
import { NODE, VERSION } from "./labels.ts";

export interface Build {
  readonly version: string;
  readonly node: string;
}

/** The versions of the gateway and of Node in this process. */
export const build: Build = { version: manifest.version, node: process.version };

/** Replaces the library's default metrics, whose names break the conventions (`promtool check metrics`). */
export function declareProcessMetrics(
  { begin, histogram, sampled }: Instruments,
  { version, node }: Build,
): { readonly eventLoopDelay: (delayMs: number) => void } {
  begin("The process");
  sampled(
    "gauge",
    "gateway_build_info",
    "Always 1. The labels contain the versions of the gateway and of Node.",
    { version: VERSION, node: NODE },
    () => [[{ version, node }, 1]],
  );
  const delay = histogram(
    "gateway_event_loop_delay_seconds",
    "How late a timer fires, measured 25 times a second.",
    {},
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  );
  const alone = (type: "counter" | "gauge", name: string, help: string, read: () => number): void =>
    sampled(type, name, help, {}, () => [[{}, read()]]);
  alone("counter", "process_cpu_seconds_total", "CPU time used, by the user and the system together.", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000_000;
  });
  alone("gauge", "process_resident_memory_bytes", "Resident memory.", () => process.memoryUsage.rss());
  alone(
    "gauge",
    "process_heap_bytes",
    "Memory in use on the JavaScript heap.",
    () => process.memoryUsage().heapUsed,
  );
  alone(
    "gauge",
    "process_start_time_seconds",
    "When the process started, in epoch seconds.",
    () => performance.timeOrigin / 1000,
  );
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

/** Replicas that share limits through a real Redis, and an upstream that records arrivals. */
import { spawn } from "node:child_process";
import { createServer } from "node:http";

import { expect, onTestFinished } from "vitest";

import { expectKept as expectWindowKept } from "./arrivals.ts";
import { redisForTest } from "./redis.ts";
import { startWorker, type WorkerSettings } from "./limiter-worker.ts";
import { follow, type Running } from "./process.ts";
import type { RedisServer } from "./redis.ts";

export interface Member {
  /** Everything that the replica has reported. */
  readonly output: () => string;
  /** Resolves when the output matches. */
  readonly says: (pattern: RegExp) => Promise<unknown>;
  readonly kill: () => void;
}

export interface LimiterStage {
  readonly redis: RedisServer;
  readonly arrivals: number[];
  /** Starts a replica in this process. */
  readonly start: (settings?: Partial<WorkerSettings>) => Member;
  /** Starts a replica in a process of its own. */
  readonly startProcess: (settings?: Partial<WorkerSettings>) => Running;
  /** Resolves when `count` more calls have arrived. */
  readonly arrive: (count: number) => Promise<void>;
}

export const LIMIT = 40;
const WINDOW_MS = 1_000;
/** A window that does not end during a test, so that the number of permits does not depend on the speed of the machine. */
export const LONG_WINDOW_MS = 60_000;

/** No window, wherever it begins, has more than the limit. */
export function expectKept({ arrivals }: LimiterStage, windowMs = WINDOW_MS): void {
  expectWindowKept(arrivals, { limit: LIMIT, windowMs });
}

export async function stageLimiters(limit = LIMIT, windowMs = WINDOW_MS): Promise<LimiterStage> {
  const redis = await redisForTest();
  const arrivals: number[] = [];
  const upstream = createServer((_, response) => {
    arrivals.push(performance.now());
    response.end("{}");
  });
  await new Promise<void>((resolve) => void upstream.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    upstream.closeAllConnections();
    upstream.close();
  });
  const address = upstream.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const common = {
    redisPort: redis.port,
    upstreamPort: port,
    limit,
    windowMs,
    replicas: 3,
    dispatchers: 4,
  };
  return {
    redis,
    arrivals,
    start(settings = {}) {
      let said = "";
      const output = (): string => said;
      const worker = startWorker({ ...common, ...settings }, (text) => (said += `${text}\n`));
      onTestFinished(worker.close);
      return { output, says: (pattern) => expect.poll(output).toMatch(pattern), kill: worker.kill };
    },
    startProcess(settings = {}) {
      const argument = JSON.stringify({ ...common, ...settings });
      const child = spawn(process.execPath, ["test/support/limiter-worker.ts", argument], {
        stdio: ["ignore", "pipe", "pipe"],
      });
      onTestFinished(() => void child.kill("SIGKILL"));
      return follow(child);
    },
    async arrive(count) {
      const before = arrivals.length;
      await expect.poll(() => arrivals.length).toBeGreaterThanOrEqual(before + count);
    },
  };
}

/** What happens to three busy replicas. Afterwards they continue. */
export type Fault = (all: LimiterStage, workers: readonly Member[]) => Promise<void>;

/** Three busy replicas exceed no limit during a fault, and continue after it. */
export async function playFault(fault: Fault): Promise<void> {
  const all = await stageLimiters();
  const workers = [all.start(), all.start(), all.start()];
  await all.arrive(LIMIT);
  await fault(all, workers);
  await all.arrive(2 * LIMIT);
  expectKept(all);
}

/**
 * Gateway processes that share a Redis and an upstream, and callers that ask them for more than the budget
 * has.
 */
import { expect, onTestFinished } from "vitest";
import { eventually } from "./eventually.ts";

import { createSandbox, type Sandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "./ask.ts";
import { CALLER, gatewayEnv } from "./gateway.ts";
import { start, type Running } from "./process.ts";

export interface Replica {
  readonly process: Running;
  readonly url: string;
  readonly admin: string;
}

export interface Fleet {
  readonly sandbox: Sandbox;
  readonly start: (env?: Readonly<Record<string, string>>) => Promise<Replica>;
  /** Starts a process that may end before it listens. */
  readonly begin: (env?: Readonly<Record<string, string>>) => Running;
  /** When requests arrived at the upstream so far, in epoch milliseconds. */
  readonly arrivals: () => number[];
}

export interface OpenFleet extends Fleet {
  readonly close: () => Promise<void>;
}

const READY = /"callers":"(http:[^"]+)","admin":"(http:[^"]+)"/;

/** A fleet that ends with the test. */
export async function startFleet(env: Readonly<Record<string, string>>): Promise<Fleet> {
  const { close, ...fleet } = await openFleet(env);
  onTestFinished(close);
  return fleet;
}

/** A fleet for several tests: the hook that opens it closes it too. */
export async function openFleet(env: Readonly<Record<string, string>>): Promise<OpenFleet> {
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 500, sold: 500 } });
  const { url } = await sandbox.listen();
  const common = {
    ...gatewayEnv(url),
    LOG_LEVEL: "info",
    ...env,
  };
  const processes: Running[] = [];
  const begin: Fleet["begin"] = (more = {}) => {
    const process = start(["gateway"], { ...common, ...more });
    processes.push(process);
    return process;
  };
  return {
    sandbox,
    begin,
    async start(more) {
      const process = begin(more);
      const [, callers = "", admin = ""] = await process.says(READY);
      return { process, url: callers, admin };
    },
    arrivals: () => sandbox.requests().map(({ at }) => at),
    async close() {
      for (const { child } of processes) child.kill("SIGKILL");
      await sandbox.close();
    },
  };
}

export const startMany = (fleet: Fleet, count: number): Promise<Replica[]> =>
  Promise.all(Array.from({ length: count }, () => fleet.start()));

/** Resolves when a replica uses its Redis and is subscribed. It answers before that too. */
export async function usesRedis({ admin }: Replica): Promise<void> {
  await eventually(async () => {
    const { text } = await ask(`${admin}/metrics`);
    expect(text).toMatch(/operation="purges"\} [1-9][^]*breaker_state\{store="redis"\} 0/);
    expect((await ask(`${admin}/readyz`)).status).toBe(200);
  });
}

export interface Crowd {
  /** Statuses of the answers so far; 0 where the connection failed. */
  readonly statuses: number[];
  readonly stop: () => Promise<void>;
}

let questions = 0;

/** Callers that ask, again and again, for answers that are not cached. */
export function crowd(
  replicas: () => readonly Pick<Replica, "url">[],
  callers: number,
  headers: Readonly<Record<string, string>> = {},
): Crowd {
  const statuses: number[] = [];
  const stop = new AbortController();
  async function caller(index: number): Promise<void> {
    for (let round = index; !stop.signal.aborted; round++) {
      const pool = replicas();
      const replica = pool[round % pool.length];
      const reply = await ask(`${replica?.url}/areas?q=question-${questions++}`, { headers }).catch(
        () => undefined,
      );
      statuses.push(reply?.status ?? 0);
      // Refusals are immediate. The pause keeps callers from asking hundreds of times a second.
      if (reply?.status !== 200) await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  const all = Array.from({ length: callers }, (_, index) => caller(index));
  return {
    statuses,
    async stop() {
      stop.abort();
      await Promise.all(all);
    },
  };
}

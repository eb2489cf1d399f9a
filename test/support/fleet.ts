/**
 * Gateway processes that share a Redis and an upstream, and callers that ask them for more than the budget
 * has.
 */
import { onTestFinished } from "vitest";

import { createSandbox, type Sandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "./ask.ts";
import { CALLER, gatewayEnv } from "./gateway.ts";
import { run, type Running } from "./process.ts";

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

const READY = /"callers":"(http:[^"]+)","admin":"(http:[^"]+)"/;

/** A fleet that ends with the test. */
export async function startFleet(env: Readonly<Record<string, string>>): Promise<Fleet> {
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 500, sold: 500 } });
  const { url } = await sandbox.listen();
  const common = {
    ...gatewayEnv(url),
    LOG_LEVEL: "info",
    ...env,
  };
  onTestFinished(sandbox.close);
  const begin: Fleet["begin"] = (more = {}) => run(["gateway"], { ...common, ...more });
  return {
    sandbox,
    begin,
    async start(more) {
      const process = begin(more);
      const [, callers = "", admin = ""] = await process.says(READY);
      return { process, url: callers, admin };
    },
    arrivals: () => sandbox.requests().map(({ at }) => at),
  };
}

export const startMany = (fleet: Fleet, count: number): Promise<Replica[]> =>
  Promise.all(Array.from({ length: count }, () => fleet.start()));

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

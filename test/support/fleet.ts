/**
 * Gateway processes that share a Redis and an upstream, and callers who ask them for more than the budget
 * has.
 */
import { onTestFinished } from "vitest";

import { createSandbox, type Sandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "./ask.ts";
import { CALLER } from "./gateway.ts";
import { run, type Running } from "./process.ts";

export interface Replica {
  readonly process: Running;
  readonly url: string;
  readonly admin: string;
}

export interface Fleet {
  readonly sandbox: Sandbox;
  readonly start: (env?: Readonly<Record<string, string>>) => Promise<Replica>;
  /** Starts a process that may not come to listen. */
  readonly begin: (env?: Readonly<Record<string, string>>) => Running;
  /** Instants of what arrived at the upstream so far, in epoch milliseconds. */
  readonly arrivals: () => number[];
}

const READY = /"callers":"(http:[^"]+)","admin":"(http:[^"]+)"/;

export async function startFleet(env: Readonly<Record<string, string>>): Promise<Fleet> {
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 200, sold: 200 } });
  const { url } = await sandbox.listen();
  onTestFinished(() => sandbox.close());
  const common = {
    HOST: "127.0.0.1",
    PORT: "0",
    ADMIN_PORT: "0",
    UPSTREAM_URL: url,
    UPSTREAM_IMAGE_URL: url,
    UPSTREAM_SERVICE: CALLER.service,
    UPSTREAM_CALLER_ID: CALLER.callerId,
    UPSTREAM_PRIVATE_KEY: CALLER.privateKey,
    UPSTREAM_USER_AGENT: "test/1.0",
    UPSTREAM_REFERRER: "https://www.example.com/",
    LOG_LEVEL: "info",
    DATA_DIR: "",
    STOP_DELAY: "0s",
    ...env,
  };
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

export interface Crowd {
  /** Statuses of the answers so far; 0 where the connection failed. */
  readonly statuses: number[];
  readonly stop: () => Promise<void>;
}

let questions = 0;

/** Callers who ask, again and again, for what nobody has asked for before. */
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
      // A refusal comes at once: nobody asks a thousand times a second.
      if (reply?.status !== 200) await new Promise((resolve) => setTimeout(resolve, 20));
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

/** Gateway processes in front of one upstream, and callers that ask them for more than the budget has. */
import http from "node:http";
import { setTimeout as lasting } from "node:timers/promises";

import { onTestFinished } from "vitest";

import { createSandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "./ask.ts";
import { fileWith } from "./files.ts";
import { CALLER, clientOf, gatewayEnv, settingsText, type TestGatewayOptions } from "./gateway.ts";
import { run, type Running } from "./process.ts";
import { urlOf } from "./redis.ts";

type Env = Readonly<Record<string, string>>;
type FleetOptions = Pick<TestGatewayOptions, "redis" | "beside"> & { readonly settings?: string };

/** A gateway in a process of its own. */
export type Replica = Awaited<ReturnType<typeof listening>>;

/** A fleet that ends with the test. */
export async function startFleet(env: Env = {}, options: FleetOptions = {}) {
  const { redis, beside } = options;
  const sandbox = beside?.sandbox ?? createSandbox({ ...CALLER, sizes: { listings: 500, sold: 500 } });
  if (beside === undefined) onTestFinished(sandbox.close);
  const settings = settingsText(options);
  const common: Env = {
    ...gatewayEnv(beside?.sandboxUrl ?? (await sandbox.listen()).url),
    LOG_LEVEL: "info",
    ...(settings !== "" && { CONFIG_FILE: fileWith(settings) }),
    ...(redis && { REDIS_URL: urlOf(redis) }),
    ...env,
  };
  /** Starts a process that may end before it listens. */
  const begin = (more: Env = {}): Running => run(["gateway"], { ...common, ...more });
  /** When requests arrived at the upstream so far, in epoch milliseconds. */
  const arrivals = (): number[] => sandbox.requests().map(({ at }) => at);
  return {
    sandbox,
    /** The environment of every process. */
    env: common,
    begin,
    start: (more?: Env) => listening(begin(more)),
    arrivals,
    /** Resolves when so many more requests have arrived. */
    arrive: (count: number): Promise<void> => sandbox.waitForRequests(arrivals().length + count),
  };
}

/** Resolves when the process of a gateway listens. */
export async function listening(process: Running) {
  const ports = /"callers":"(http[^"]+)","admin":"(http[^"]+)"/;
  const [, url = "", adminUrl = ""] = await process.says(ports);
  return { ...process, ...clientOf({ url, adminUrl }) };
}

let questions = 0;

/**
 * Callers on kept connections that ask, again and again, for answers that are not cached. They never retry, and
 * hang up when the test ends.
 */
export function crowd(gateways: () => readonly { readonly url: string }[], callers: number) {
  /** Every other end of a request: a status and a text, or an error. */
  const problems: string[] = [];
  const stopping = new AbortController();
  let answered = 0;
  async function caller(index: number): Promise<void> {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    for (let round = index; !stopping.signal.aborted; round++) {
      const pool = gateways();
      const url = `${pool[round % pool.length]?.url}/areas?q=question-${questions++}`;
      const problem = await ask(url, { agent, signal: stopping.signal }).then(
        ({ status, text }) => (status === 200 ? undefined : `${status} ${text}`),
        String,
      );
      if (problem === undefined) answered++;
      else if (!stopping.signal.aborted) {
        problems.push(problem);
        // Refusals are immediate. The pause keeps callers from asking hundreds of times a second.
        await lasting(100);
      }
    }
    agent.destroy();
  }
  const all = Array.from({ length: callers }, (_, index) => caller(index));
  /** They hang up. */
  const stop = async (): Promise<void> => {
    stopping.abort();
    await Promise.all(all);
  };
  onTestFinished(stop);
  /** `answered`: how many answers there were so far. */
  return { answered: () => answered, problems, stop };
}

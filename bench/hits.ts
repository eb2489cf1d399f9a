import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import http from "node:http";
import { fileURLToPath } from "node:url";

import { measure } from "./measure.ts";
import { micros, printTable, ratio } from "./table.ts";

const CONNECTIONS = 16;

interface Server {
  readonly child: ChildProcess;
  readonly url: string;
  /** The child's CPU time so far, milliseconds. */
  readonly cpuMs: () => Promise<number>;
}

async function start(kind: "gateway" | "bare"): Promise<Server> {
  const child = fork(fileURLToPath(new URL("hits-server.ts", import.meta.url)), [kind]);
  const answer = async (name: string): Promise<unknown> => {
    const [message]: unknown[] = await once(child, "message");
    return typeof message === "object" && message !== null ? Reflect.get(message, name) : undefined;
  };
  return {
    child,
    url: String(await answer("url")),
    cpuMs: async () => {
      child.send("cpu");
      return Number(await answer("cpuMs"));
    },
  };
}

/** CPU time of the gateway for a cached answer of 15 KB or so, milliseconds. */
export async function plainHitCpuMs(forMs: number): Promise<number> {
  const server = await start("gateway");
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const get = (): Promise<void> => request(server.url, agent, "identity");
  await measure(forMs / 2, CONNECTIONS, get);
  const before = await server.cpuMs();
  const { count } = await measure(forMs, CONNECTIONS, get);
  const cpuMs = ((await server.cpuMs()) - before) / count;
  agent.destroy();
  server.child.kill();
  return cpuMs;
}

/** A cached answer of 15 KB or so through the gateway, beside a bare node:http server that sends as much. */
export async function benchHits(forMs: number): Promise<void> {
  const rows: string[][] = [];
  let base: number | undefined;
  for (const [name, kind, coding] of [
    ["bare node:http", "bare", "identity"],
    ["gateway", "gateway", "identity"],
    ["gateway, br", "gateway", "br"],
  ] as const) {
    const server = await start(kind);
    const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    const get = (): Promise<void> => request(server.url, agent, coding);
    await measure(forMs / 2, CONNECTIONS, get);
    const before = await server.cpuMs();
    const { perSecond, count } = await measure(forMs, CONNECTIONS, get);
    const cpuMs = ((await server.cpuMs()) - before) / count;
    agent.destroy();
    server.child.kill();
    base ??= cpuMs;
    rows.push([name, Math.round(perSecond).toLocaleString("en"), micros(cpuMs), ratio(cpuMs, base)]);
  }
  printTable("A cached answer of 15 KB", ["server", "per second", "CPU each", "of bare"], rows);
}

function request(url: string, agent: http.Agent, coding: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  http
    .get(url, { agent, headers: { "accept-encoding": coding } }, (response) => {
      response.resume();
      response.on("end", resolve);
    })
    .on("error", reject);
  return promise;
}

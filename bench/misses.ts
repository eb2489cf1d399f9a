/** The cost of a miss: the latency that it adds to a call to the origin, and CPU time. Nothing waits for the budget. */
import { once } from "node:events";
import http from "node:http";

import { startGatewayProcess, startOrigin } from "./servers.ts";
import { micros, printTable, quantile } from "./table.ts";

/** With these settings, every new request is one upstream call. */
const SETTINGS = "pages: { fold: off }\ncache: { ttl: 1h, maxBytes: 64MiB }\n";
const SIZES = { "15 KB": 25, "330 KB": 500 };

/** @param count the number of misses of each size */
export async function benchMisses(count: number): Promise<void> {
  const rows: string[][] = [];
  const origin = await startOrigin();
  const gateway = await startGatewayProcess(origin.port, { settings: SETTINGS });
  const agent = new http.Agent({ keepAlive: true });
  let price = 0;
  for (const [name, limit] of Object.entries(SIZES)) {
    const next = (): string => `/listings?limit=${limit}&minListPrice=${++price}`;
    const direct: number[] = [];
    const through: number[] = [];
    for (let nth = -count / 10; nth < count; nth++) {
      const path = next();
      // The order alternates, so that each one is the first to request half of the answers from the origin.
      const ports = nth % 2 === 0 ? [origin.port, gateway.port] : [gateway.port, origin.port];
      for (const port of ports) {
        const ms = await timeOf(agent, port, path);
        if (nth >= 0) (port === origin.port ? direct : through).push(ms);
      }
    }
    const before = gateway.cpuMs();
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        for (let nth = 0; nth < count / 16; nth++) await timeOf(agent, gateway.port, next());
      }),
    );
    const cpuMs = (gateway.cpuMs() - before) / (Math.ceil(count / 16) * 16);
    const added = (part: number): string =>
      `${(quantile(through, part) - quantile(direct, part)).toFixed(2)} ms`;
    rows.push([name, `${quantile(direct, 0.5).toFixed(2)} ms`, added(0.5), added(0.99), micros(cpuMs)]);
  }
  agent.destroy();
  await gateway.stop();
  await origin.stop();
  const header = ["answer", "origin alone, median", "added, median", "added, p99", "CPU of the gateway"];
  printTable("Misses, one after the other; CPU with 16 at a time", header, rows);
}

async function timeOf(agent: http.Agent, port: number, path: string): Promise<number> {
  const startedAt = performance.now();
  const request = http.get({ agent, port, host: "127.0.0.1", path });
  const [response]: http.IncomingMessage[] = await once(request, "response");
  if (response === undefined) throw new Error("no response");
  await response.toArray();
  if (response.statusCode !== 200) throw new Error(`${response.statusCode}: ${path}`);
  return performance.now() - startedAt;
}

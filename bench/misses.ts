/** The cost of a miss: the latency that it adds to a call to the origin, and CPU time. Nothing waits for the budget. */
import http from "node:http";

import { ask } from "../test/support/ask.ts";
import { startGatewayProcess, startOrigin } from "./servers.ts";
import { micros, printTable, quantile } from "./table.ts";

/** With these settings, every new request is one upstream call. */
const SETTINGS = "pages: { fold: off }\ncache: { ttl: 1h, maxBytes: 64MiB }\nquery: { allow: [same] }\n";
const PATHS = { "15 KB": "/listings?limit=25", "340 KB": "/sold?limit=500" };

/** @param count the number of misses of each size */
export async function benchMisses(count: number): Promise<void> {
  const rows: string[][] = [];
  const origin = await startOrigin();
  const gateway = await startGatewayProcess(origin.port, { settings: SETTINGS });
  const agent = new http.Agent({ keepAlive: true });
  let asked = 0;
  for (const [name, path] of Object.entries(PATHS)) {
    const next = (): string => `${path}&same=${++asked}`;
    const direct: number[] = [];
    const through: number[] = [];
    for (let nth = -count / 2; nth < count; nth++) {
      // The origin gets the same request from the bench and from the gateway.
      const directMs = await timeOf(agent, origin.port, next(), { "Accept-Encoding": "gzip" });
      const throughMs = await timeOf(agent, gateway.port, next());
      if (nth < 0) continue;
      direct.push(directMs);
      through.push(throughMs);
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

async function timeOf(
  agent: http.Agent,
  port: number,
  path: string,
  headers: http.OutgoingHttpHeaders = {},
): Promise<number> {
  const startedAt = performance.now();
  const { status } = await ask(`http://127.0.0.1:${port}${path}`, { agent, headers });
  if (status !== 200) throw new Error(`${status}: ${path}`);
  return performance.now() - startedAt;
}

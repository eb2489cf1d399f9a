/** How the cost of a scrape of /metrics grows with the listed apps. A hundred of them send calls. */
import { setTimeout as pause } from "node:timers/promises";

import { startGateway } from "./gateway.ts";
import { median, printTable, ratio } from "./table.ts";

/** The gateway reuses its view of the shares for half a second. After this pause, each scrape computes the view again. */
const BETWEEN_MS = 600;
const ASKING = 100;

export async function benchScrapes(counts: readonly number[], rounds: number): Promise<void> {
  const rows: string[][] = [];
  let base = 0;
  for (const count of counts) {
    const apps = Array.from({ length: count }, (_, nth) => `app-${nth}`);
    const settings = `apps: [${apps.map((id) => `{ id: ${id} }`).join(", ")}]\nbudget: { concurrency: 50, spacing: 0s }`;
    const gateway = await startGateway({}, settings, "warn", "1000000/1m,10000000/1d");
    await Promise.all(apps.slice(0, ASKING).map((app) => callOf(gateway.url, app)));
    const costs: number[] = [];
    let lines = 0;
    for (let round = 0; round < rounds; round++) {
      await pause(BETWEEN_MS);
      const before = process.cpuUsage();
      lines = (await (await fetch(`${gateway.adminUrl}/metrics`)).text()).split("\n").length;
      const { user, system } = process.cpuUsage(before);
      costs.push((user + system) / 1_000);
    }
    await gateway.stop();
    const cost = median(costs);
    base ||= cost;
    rows.push([count.toLocaleString("en"), `${cost.toFixed(1)} ms`, ratio(cost, base), String(lines)]);
  }
  printTable("A scrape of /metrics, with its client", ["apps", "CPU", "ratio", "lines"], rows);
}

async function callOf(url: string, app: string): Promise<void> {
  const answer = await fetch(`${url}/areas?q=${app}`, { headers: { "x-app-id": app } });
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(`status ${answer.status}`);
}

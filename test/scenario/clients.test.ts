/** The client examples of docs/clients/, as far as what runs them is on this machine. */
import { spawnSync } from "node:child_process";
import { createServer } from "node:http";

import { describe, expect, it, onTestFinished } from "vitest";

import { listen } from "../../src/process/listen.ts";
import { ask } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";
import { runProgram } from "../support/process.ts";

const CLIENTS = [
  { name: "JavaScript", program: process.execPath, file: "docs/clients/client.mjs" },
  { name: "Python", program: "python3", file: "docs/clients/client.py" },
  { name: "curl", program: "sh", file: "docs/clients/client.sh", also: "curl" },
];

const isThere = (program: string): boolean => spawnSync(program, ["-c", ""]).error === undefined;
const found = CLIENTS.filter(({ program, also = program }) => isThere(program) && isThere(also));
for (const { name, program } of CLIENTS.filter((client) => !found.includes(client))) {
  console.log(`The ${name} client is not run: ${program} is not on this machine.`);
}

const PATH = "/listings?objectType=radhus,kedjehus,parhus";

function idsIn(text: string): number[] {
  return [...text.matchAll(/"serviceId": ?(\d+)/g)].map(([, id]) => Number(id)).toSorted((a, b) => a - b);
}

describe.each(found)("the $name client", ({ program, file }) => {
  it("prints every record of all pages, also of areas, and says which app it is", async () => {
    const gateway = await startGateway({ settings: "apps: [{ id: my-app }]" });
    const all = await ask(`${gateway.url}${PATH}&limit=500`);
    const areas = await ask(`${gateway.url}/areas?q=Nacka`);
    const client = runProgram(program, [file, gateway.url, PATH]);
    const clientOfAreas = runProgram(program, [file, gateway.url, "/areas?q=Nacka"]);
    expect([await client.ended, idsIn(client.output())]).toEqual([0, idsIn(all.text)]);
    expect(idsIn(all.text).length).toBeGreaterThan(100);
    expect([await clientOfAreas.ended, idsIn(clientOfAreas.output())]).toEqual([0, idsIn(areas.text)]);
    expect(areas.text).toContain("Nacka");
    const calls = await gateway.metric(
      'gateway_requests_total{app="my-app",resource="listings",outcome="miss",status="200"}',
    );
    expect(calls).toBeGreaterThan(1);
  });
});

it("each client waits for Retry-After, and until RateLimit has something left, before it asks again", async () => {
  // All at the same time: each waits for two seconds.
  const outcomes = found.map(async ({ name, program, file }) => {
    const asked: { at: number; agent: string | undefined }[] = [];
    const server = createServer((request, response) => {
      asked.push({ at: performance.now(), agent: request.headers["user-agent"] });
      if (asked.length === 1) {
        const problem = { title: "Refused", remedy: "Wait.", status: 429 };
        response.writeHead(429, { "Retry-After": "1" }).end(JSON.stringify(problem));
        return;
      }
      const page = { totalCount: 150, count: 1, listings: [{ serviceId: asked.length }] };
      response.writeHead(200, { RateLimit: '"1m";r=0;t=1, "1d";r=9;t=4000' }).end(JSON.stringify(page));
    });
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    const { url } = await listen(server, 0, "127.0.0.1");
    const client = runProgram(program, [file, url, PATH]);
    const code = await client.ended;
    const waitedMs = asked.slice(1).map(({ at }, index) => at - Number(asked[index]?.at));
    return { name, code, ids: idsIn(client.output()), waitedMs, agents: asked.map(({ agent }) => agent) };
  });
  for (const { name, code, ids, waitedMs, agents } of await Promise.all(outcomes)) {
    expect([name, code, ids, waitedMs.length]).toEqual([name, 0, [2, 3], 2]);
    // Timers may be a little early.
    for (const waited of waitedMs) expect([name, waited]).toEqual([name, expect.toSatisfy((ms) => ms > 950)]);
    for (const agent of agents)
      expect([name, agent]).toEqual([name, expect.stringMatching(/^my-app\/1\.0 \(.+\)$/)]);
  }
});

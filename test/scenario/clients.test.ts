/** The client examples of docs/clients/, as far as what runs them is on this machine. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";

import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { EXACT_PAGES, LISTING_ID, startGateway } from "../support/gateway.ts";
import { runProgram } from "../support/process.ts";
import { serve } from "../support/serve.ts";

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
  it("is short: fewer than 60 lines", () => {
    expect(readFileSync(file, "utf8").trimEnd().split("\n").length).toBeLessThan(60);
  });

  it("prints every record of all pages, of areas, and of a single record, and sends its app id", async () => {
    const gateway = await startGateway({ settings: "apps: [{ id: my-app }]", env: EXACT_PAGES });
    for (const [path, whole] of [
      [PATH, `${PATH}&limit=500`],
      ["/areas?q=Nacka", "/areas?q=Nacka"],
      [`/listings/${LISTING_ID}`, `/listings/${LISTING_ID}`],
    ] as const) {
      const all = idsIn((await ask(gateway.url + whole)).text);
      const client = runProgram(program, [file, gateway.url, path]);
      expect([path, await client.ended, idsIn(client.output())]).toEqual([path, 0, all]);
    }
    const calls = await gateway.metric(
      'gateway_requests_total{app="my-app",resource="listings",outcome="miss",status="200"}',
    );
    expect(calls).toBeGreaterThan(1);
  });

  it("ends with every mistake of a 400, and with a 404", async () => {
    const gateway = await startGateway();
    const wrong = runProgram(program, [file, gateway.url, "/listings?limit=900&areaID=76"]);
    expect(await wrong.ended).toBe(1);
    for (const part of ["limit", "900", "areaID", "did you mean areaId?"])
      expect(wrong.output()).toContain(part);
    const missing = runProgram(program, [file, gateway.url, "/sold/1"]);
    expect([await missing.ended, missing.output()]).toEqual([1, expect.stringContaining("no such record")]);
  });
});

it("each client waits for Retry-After, follows Link, asks with If-None-Match, and uses an answer again after a 304", async () => {
  const outcomes = found.map(async ({ name, program, file }) => {
    const asked: { at: number; headers: IncomingHttpHeaders; target: string | undefined }[] = [];
    const server = createServer(({ headers, url }, response) => {
      asked.push({ at: performance.now(), headers, target: url });
      response.setHeader("ETag", '"a"').setHeader("Link", '<?offset=1>; rel="next", <?offset=0>; rel="prev"');
      const problem = JSON.stringify({ title: "Refused", remedy: "Wait.", status: 429 });
      // Every page links to the second one, so that it is asked for again. The fifth request is the end.
      if (asked.length === 1) response.writeHead(429, { "Retry-After": "1" }).end(problem);
      else if (asked.length === 4) response.writeHead(304).end();
      else if (asked.length === 5) response.writeHead(400).end('{"title":"The end"}');
      else response.end(JSON.stringify({ listings: [{ serviceId: asked.length }] }));
    });
    const client = runProgram(program, [
      file,
      `http://127.0.0.1:${await serve(server)}`,
      "/listings?limit=1",
    ]);
    return { name, code: await client.ended, ids: idsIn(client.output()), asked };
  });
  for (const { name, code, ids, asked } of await Promise.all(outcomes)) {
    expect([name, code, ids]).toEqual([name, 1, [2, 3, 3]]);
    const [first, second] = ["/listings?limit=1", "/listings?offset=1"];
    expect([name, asked.map(({ target }) => target)]).toEqual([name, [first, first, second, second, second]]);
    const conditions = asked.map(({ headers }) => headers["if-none-match"] || undefined);
    expect([name, conditions]).toEqual([name, [undefined, undefined, undefined, '"a"', '"a"']]);
    // Timers may be a little early.
    expect(Number(asked[1]?.at) - Number(asked[0]?.at)).toBeGreaterThan(950);
    for (const { headers } of asked) expect(headers["user-agent"]).toMatch(/^my-app\/1\.0 \(.+\)$/);
  }
});

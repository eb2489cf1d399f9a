/** A server to measure, as a process of its own: `bare`, or a gateway in front of a sandbox with a log level. */
import { once } from "node:events";
import http from "node:http";

import { startGateway } from "./gateway.ts";
import type { FixedAnswer } from "./hits.ts";

/** The sandbox runs in this process, so the calls that check pages would count as the gateway's time. */
const NO_CHECKS = "pages: { verify: 0 }";

async function startWhole(logLevel: string): Promise<string> {
  const { url } = await startGateway({ sizes: { listings: 2_000, sold: 10 } }, NO_CHECKS, logLevel);
  return url;
}

async function startBare(): Promise<string> {
  const [answer]: FixedAnswer[] = await once(process, "message");
  if (answer === undefined) throw new Error("no answer to send");
  const { status, head } = answer;
  const body = Buffer.from(answer.bodyBase64, "base64");
  const byTarget = new Map(answer.targets.map((target) => [target, { head: [...head], body }]));
  const server = http.createServer((request, response) => {
    const found = byTarget.get(request.url ?? "");
    if (found === undefined) response.writeHead(404).end();
    else if (status === 304) response.writeHead(status, found.head).end();
    else response.writeHead(status, found.head).end(found.body);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
}

const [, , kind = "bare"] = process.argv;
const url = await (kind === "bare" ? startBare() : startWhole(kind));
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1000 });
});

process.send?.({ port: Number(new URL(url).port) });

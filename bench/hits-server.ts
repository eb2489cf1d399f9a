/** A server to measure, as a process of its own: `gateway` in front of a sandbox, or `bare`. */
import { once } from "node:events";
import http from "node:http";

import { startGateway } from "./gateway.ts";

const PATH = "/listings?areaId=76&limit=25";

async function startWhole(): Promise<string> {
  const { url } = await startGateway({ sizes: { listings: 2_000, sold: 10 } });
  return url + PATH;
}

async function startBare(): Promise<string> {
  const body = Buffer.alloc(15_000, "x");
  const headers = { "Content-Type": "application/json", "Content-Length": body.length };
  const server = http.createServer((_request, response) => response.writeHead(200, headers).end(body));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}${PATH}`;
}

const url = await (process.argv[2] === "gateway" ? startWhole() : startBare());
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1000 });
});
process.send?.({ url });

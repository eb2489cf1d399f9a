/** A server to measure, as a process of its own: `gateway` in front of a sandbox, or `bare`. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import http from "node:http";

import { createGateway } from "../src/app.ts";
import { createLogger } from "../src/telemetry/log.ts";
import { systemClock } from "../src/process/clock.ts";
import { createPrivateKeys } from "../src/config/private-key.ts";
import { openSettings } from "../src/config/load.ts";
import { systemRandom } from "../src/process/random.ts";
import { createSandbox } from "../src/sandbox/sandbox.ts";

const CALLER = { service: "propertyservice", callerId: "bench", privateKey: "bench-key" };
const PATH = "/listings?areaId=76&limit=25";

async function startGateway(): Promise<string> {
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 2_000, sold: 10 } });
  const { url } = await sandbox.listen();
  const source = openSettings({
    env: {
      HOST: "127.0.0.1",
      PORT: "0",
      ADMIN_PORT: "0",
      DATA_DIR: "",
      UPSTREAM_URL: url,
      UPSTREAM_IMAGE_URL: url,
      UPSTREAM_SERVICE: CALLER.service,
      UPSTREAM_CALLER_ID: CALLER.callerId,
      UPSTREAM_PRIVATE_KEY: CALLER.privateKey,
      UPSTREAM_USER_AGENT: "bench/1.0",
      UPSTREAM_REFERRER: "https://www.example.com/",
      LOG_LEVEL: "warn",
    },
    readFile: (path) => readFileSync(path, "utf8"),
  });
  const { config } = source.first;
  const keys = createPrivateKeys(config.upstream.privateKey);
  const log = createLogger({ level: config.log.level, secrets: keys.known });
  const gateway = createGateway({ source, keys, clock: systemClock, random: systemRandom, log });
  const { callers } = await gateway.start();
  return callers.url + PATH;
}

async function startBare(): Promise<string> {
  const body = Buffer.alloc(15_000, "x");
  const headers = { "Content-Type": "application/json", "Content-Length": body.length };
  const server = http.createServer((_request, response) => response.writeHead(200, headers).end(body));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}${PATH}`;
}

const url = await (process.argv[2] === "gateway" ? startGateway() : startBare());
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1000 });
});
process.send?.({ url });

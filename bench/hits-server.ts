/** A server to measure, as a process of its own: `bare`, or a gateway in front of a sandbox with a log level. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import http from "node:http";

import { createGateway } from "../src/app.ts";
import type { FixedAnswer } from "./hits.ts";
import { createLogger } from "../src/telemetry/log.ts";
import { systemClock } from "../src/process/clock.ts";
import { createPrivateKeys } from "../src/config/private-key.ts";
import { openSettings } from "../src/config/load.ts";
import { systemRandom } from "../src/process/random.ts";
import { createSandbox } from "../src/sandbox/sandbox.ts";

const CALLER = { service: "propertyservice", callerId: "bench", privateKey: "bench-key" };
async function startGateway(logLevel: string): Promise<string> {
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
      LOG_LEVEL: logLevel,
    },
    readFile: (path) => readFileSync(path, "utf8"),
  });
  const { config } = source.first;
  const keys = createPrivateKeys(config.upstream.privateKey);
  const log = createLogger({ level: config.log.level, secrets: keys.known });
  const gateway = createGateway({ source, keys, clock: systemClock, random: systemRandom, log });
  const { callers } = await gateway.start();
  return callers.url;
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
const url = await (kind === "bare" ? startBare() : startGateway(kind));
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1000 });
});

process.send?.({ port: Number(new URL(url).port) });

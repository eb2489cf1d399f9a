/** A server to measure, as a process of its own: `bare`, or `gateway` in front of an origin. */
import { once } from "node:events";
import http from "node:http";

import { ask } from "../test/support/ask.ts";
import { portOf } from "../test/support/ports.ts";
import { startGatewayAt } from "./gateway.ts";
import { forAll } from "./raw-client.ts";
import type { Copied } from "./servers.ts";

async function startGateway(originPort: number, logLevel: string, settings: string): Promise<number> {
  const { url } = await startGatewayAt(`http://127.0.0.1:${originPort}`, settings, logLevel);
  return Number(new URL(url).port);
}

async function startBare(): Promise<number> {
  const [copied]: Copied[] = await once(process, "message");
  if (copied === undefined) throw new Error("nothing to copy");
  const answers = await answersOf(copied);
  const server = http.createServer((request, response) => {
    const found = answers.get(request.url ?? "");
    if (found === undefined) response.writeHead(404).end();
    else if (found.status === 304) response.writeHead(304, found.head).end();
    else response.writeHead(found.status, found.head).end(found.body);
  });
  await once(server.listen(0, "127.0.0.1", 4_096), "listening");
  server.keepAliveTimeout = 600_000;
  return portOf(server);
}

interface FixedAnswer {
  readonly status: number;
  readonly head: string[];
  readonly body: Buffer;
}

/** The headers that Node adds by itself. */
const NODES_OWN = new Set(["date", "connection", "keep-alive"]);

async function answersOf({ port, targets, headers: lines }: Copied): Promise<Map<string, FixedAnswer>> {
  const headers = Object.fromEntries(lines.map((line) => line.split(": ")));
  /** Equal bodies are one body, so that spellings of one question do not fill the processor's caches. */
  const bodies = new Map<string, Buffer>();
  const answers = await forAll(targets, async (path, agent): Promise<[string, FixedAnswer]> => {
    const reply = await ask(`http://127.0.0.1:${port}${path}`, { agent, headers });
    const text = reply.body.toString("latin1");
    const body = bodies.get(text) ?? reply.body;
    bodies.set(text, body);
    const copied = Object.entries(reply.headers).filter(([name]) => !NODES_OWN.has(name));
    return [path, { status: reply.status, head: copied.flat().map(String), body }];
  });
  return new Map(answers);
}

const [, , kind, originPort = "0", logLevel = "warn", settings = ""] = process.argv;
const port = await (kind === "bare" ? startBare() : startGateway(Number(originPort), logLevel, settings));
process.on("disconnect", () => process.exit(0));
process.send?.({ port });

/** A server to measure, as a process of its own: `bare`, or `gateway` in front of an origin. */
import { once } from "node:events";
import http from "node:http";

import { startGatewayAt } from "./gateway.ts";
import type { Copied } from "./servers.ts";

async function startGateway(originPort: number, logLevel: string, settings: string): Promise<number> {
  const { url, reload } = await startGatewayAt(`http://127.0.0.1:${originPort}`, settings, logLevel);
  process.on("message", (message) => {
    if (message === "reload") reload();
    else process.send?.({ heapBytes: heapAfterCollection() });
  });
  return Number(new URL(url).port);
}

/** Needs the option `--expose-gc`. */
function heapAfterCollection(): number {
  // More than once, because finalizers release further memory.
  for (let time = 0; time < 3; time++) globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
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
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

interface FixedAnswer {
  readonly status: number;
  readonly head: string[];
  readonly body: Buffer;
}

/** The headers that Node adds by itself. */
const NODES_OWN = new Set(["date", "connection", "keep-alive"]);

async function answersOf({ port, targets, headers: lines }: Copied): Promise<Map<string, FixedAnswer>> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  const headers = Object.fromEntries(lines.map((line) => line.split(": ")));
  const answers = new Map<string, FixedAnswer>();
  /** Equal bodies are one body, so that spellings of one question do not fill the processor's caches. */
  const bodies = new Map<string, Buffer>();
  const left = targets.values();
  const copy = async (): Promise<void> => {
    for (const path of left) {
      const request = http.get({ agent, port, host: "127.0.0.1", path, headers });
      const [response]: http.IncomingMessage[] = await once(request, "response");
      if (response === undefined) throw new Error("no response");
      const received = Buffer.concat(await response.toArray());
      const text = received.toString("latin1");
      const body = bodies.get(text) ?? received;
      bodies.set(text, body);
      const { rawHeaders } = response;
      const head = rawHeaders.filter(
        (_, index) => !NODES_OWN.has(rawHeaders[index - (index % 2)]?.toLowerCase() ?? ""),
      );
      answers.set(path, { status: response.statusCode ?? 0, head, body });
    }
  };
  await Promise.all(Array.from({ length: 16 }, copy));
  agent.destroy();
  return answers;
}

const [, , kind, originPort = "0", logLevel = "warn", settings = ""] = process.argv;
const port = await (kind === "bare" ? startBare() : startGateway(Number(originPort), logLevel, settings));
process.on("disconnect", () => process.exit(0));
process.send?.({ port });

/**
 * A small balancer, as those in front of replicas are: it asks each for its /readyz now and then, hands every
 * request to one that is ready, over connections that it keeps, and tries nothing twice.
 */
import http from "node:http";

import { onTestFinished } from "vitest";

import type { Replica } from "./fleet.ts";

export interface Balancer {
  readonly url: string;
  readonly add: (replica: Replica) => void;
  readonly remove: (replica: Replica) => void;
  /** How many it sends requests to. */
  readonly ready: () => number;
}

const ASK_MS = 100;

interface Backend {
  readonly replica: Replica;
  readonly agent: http.Agent;
  isReady: boolean;
}

export async function startBalancer(): Promise<Balancer> {
  const backends = new Set<Backend>();
  let turn = 0;

  const server = http.createServer((request, response) => {
    const ready = [...backends].filter(({ isReady }) => isReady);
    const backend = ready[turn++ % ready.length];
    if (backend === undefined) {
      response.writeHead(502, { "x-balancer": "nobody is ready" }).end();
      return;
    }
    const { replica, agent } = backend;
    const onward = http.request(
      replica.url + (request.url ?? ""),
      { agent, headers: { ...request.headers, connection: "keep-alive" } },
      (answer) => {
        const { connection: _connection, ...headers } = answer.headers;
        response.writeHead(answer.statusCode ?? 502, headers);
        answer.pipe(response);
        answer.on("error", () => response.destroy());
      },
    );
    onward.on("error", (error) => {
      response.writeHead(502, { "x-balancer": error.message }).end();
    });
    onward.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const asking = setInterval(() => backends.forEach(check), ASK_MS);
  onTestFinished(() => {
    clearInterval(asking);
    for (const { agent } of backends) agent.destroy();
    server.close();
    server.closeAllConnections();
  });

  return {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`,
    add(replica) {
      const backend = { replica, agent: new http.Agent({ keepAlive: true }), isReady: false };
      backends.add(backend);
    },
    remove(replica) {
      for (const backend of backends) {
        if (backend.replica !== replica) continue;
        backend.agent.destroy();
        backends.delete(backend);
      }
    },
    ready: () => [...backends].filter(({ isReady }) => isReady).length,
  };
}

function check(backend: Backend): void {
  const asked = http.get(`${backend.replica.admin}/readyz`, { agent: false }, (answer) => {
    backend.isReady = answer.statusCode === 200;
    answer.resume();
  });
  asked.on("error", () => {
    backend.isReady = false;
  });
}

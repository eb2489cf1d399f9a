/**
 * A small balancer, as those in front of replicas are: it asks each for its /readyz now and then, hands every
 * request to one that is ready, over connections that it keeps, and tries nothing twice.
 */
import http from "node:http";

import { onTestFinished } from "vitest";

import { ask } from "./ask.ts";
import type { Replica } from "./fleet.ts";
import { portOf } from "./ports.ts";

export interface Balancer {
  readonly url: string;
  readonly add: (replica: Replica) => void;
  readonly remove: (replica: Replica) => void;
  /** How many it sends requests to. */
  readonly ready: () => number;
}

const ASK_MS = 100;

export async function startBalancer(): Promise<Balancer> {
  /** Whether each is ready. */
  const replicas = new Map<Replica, boolean>();
  const ready = (): Replica[] => [...replicas].flatMap(([replica, isReady]) => (isReady ? replica : []));
  const agent = new http.Agent({ keepAlive: true });
  let turn = 0;

  const server = http.createServer((request, response) => {
    const refuse = (why: string): void => void response.writeHead(502, { "x-balancer": why }).end();
    const replica = ready()[turn++ % ready().length];
    if (replica === undefined) return refuse("nobody is ready");
    const headers = { ...request.headers, connection: "keep-alive" };
    const onward = http.request(replica.url + (request.url ?? ""), { agent, headers }, (answer) => {
      const { connection: _connection, ...others } = answer.headers;
      response.writeHead(answer.statusCode ?? 502, others);
      answer.on("error", () => response.destroy()).pipe(response);
    });
    onward.on("error", ({ message }) => refuse(message)).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  async function check(replica: Replica): Promise<void> {
    const isReady = await ask(`${replica.admin}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    );
    if (replicas.has(replica)) replicas.set(replica, isReady);
  }
  const asking = setInterval(() => [...replicas.keys()].forEach(check), ASK_MS);
  onTestFinished(() => {
    clearInterval(asking);
    agent.destroy();
    server.close();
    server.closeAllConnections();
  });
  return {
    url: `http://127.0.0.1:${portOf(server)}`,
    add: (replica) => void replicas.set(replica, false),
    remove: (replica) => void replicas.delete(replica),
    ready: () => ready().length,
  };
}

import { randomInt } from "node:crypto";
import { createServer, type Server } from "node:net";

/** Below the ports that the system assigns by itself, so that no other connection takes a port between two servers. */
const [LOWEST, HIGHEST] = [10_000, 32_000];

/** Each process of a test run has ports of its own, so that no other test takes a port before its server listens. */
const PARTS = 8;
const PART = Number(process.env["VITEST_POOL_ID"] ?? 0) % PARTS;
const SIZE = Math.floor((HIGHEST - LOWEST) / PARTS);
const given = new Set<number>();

/** @returns the port on which a server listens */
export function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return address.port;
}

/** @returns ports of 127.0.0.1 on which nothing listens, and which were not returned before */
export async function freePorts(count: number): Promise<number[]> {
  if (given.size > SIZE / 2) given.clear();
  const ports: number[] = [];
  while (ports.length < count) {
    const port = LOWEST + PART * SIZE + randomInt(SIZE);
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

function isFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const server = createServer();
  server.once("error", () => resolve(false));
  server.listen(port, "127.0.0.1", () => void server.close(() => resolve(true)));
  return promise;
}

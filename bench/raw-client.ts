import { once } from "node:events";
import http from "node:http";
import net from "node:net";

/** A request, and what its answer must look like. */
export interface Exchange {
  readonly request: Buffer;
  readonly status: number;
  readonly bodyBytes: number;
  /** The last bytes of the body. */
  readonly ends: Buffer;
}

/** @returns the bytes of a request on a connection that stays open */
export function requestBytes(target: string, headers: readonly string[] = []): Buffer {
  return Buffer.from([`GET ${target} HTTP/1.1`, "Host: bench", ...headers, "", ""].join("\r\n"));
}

/**
 * Connections that send one request after the other and check every answer. They need less CPU time than Node's own client,
 * so that the server is the busier process.
 */
export interface RawClient {
  /** @returns the number of answers */
  readonly run: (forMs: number) => Promise<number>;
  readonly close: () => void;
}

export async function createRawClient(
  port: number,
  connections: number,
  exchanges: readonly Exchange[],
): Promise<RawClient> {
  const sockets = await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = net.connect(port, "127.0.0.1");
      await once(socket, "connect");
      return socket.setNoDelay(true);
    }),
  );
  let next = 0;
  return {
    async run(forMs) {
      const endsAt = performance.now() + forMs;
      const counts = await Promise.all(
        sockets.map((socket) => askUntil(socket, endsAt, () => exchanges[next++ % exchanges.length])),
      );
      return counts.reduce((sum, count) => sum + count, 0);
    },
    close() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

function askUntil(socket: net.Socket, endsAt: number, take: () => Exchange | undefined): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let count = 0;
  let asked: Exchange | undefined;
  let missing = -1;
  const ask = (): void => {
    asked = take();
    missing = -1;
    if (asked !== undefined) socket.write(asked.request);
  };
  const onData = (chunk: Buffer): void => {
    if (asked === undefined) return;
    if (missing === -1) {
      const headEnd = chunk.indexOf("\r\n\r\n");
      const status = Number(chunk.toString("latin1", 9, 12));
      if (headEnd === -1 || status !== asked.status) {
        reject(new Error(`unexpected answer: ${chunk.toString("latin1", 0, 200)}`));
        return;
      }
      missing = asked.bodyBytes - (chunk.length - headEnd - 4);
    } else missing -= chunk.length;
    if (missing > 0) return;
    if (missing < 0 || !isAsExpected(chunk, asked)) {
      reject(new Error(`not the expected answer: ${asked.request.toString("latin1")}`));
      return;
    }
    count++;
    if (performance.now() < endsAt) ask();
    else {
      socket.off("data", onData).off("error", reject);
      resolve(count);
    }
  };
  socket.on("data", onData);
  socket.once("error", reject);
  ask();
  return promise;
}

/** Whether the last packet of a response ends as the body should. A packet may be shorter than that. */
function isAsExpected(packet: Buffer, { ends }: Exchange): boolean {
  const length = Math.min(packet.length, ends.length);
  return packet.compare(ends, ends.length - length, ends.length, packet.length - length) === 0;
}

/** Calls a function for each item, sixteen at a time. @returns the results in the order of the items */
export async function forAll<T, R>(
  all: readonly T[],
  use: (item: T, agent: http.Agent) => Promise<R>,
): Promise<R[]> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  const results: R[] = [];
  const left = all.entries();
  const work = async (): Promise<void> => {
    for (const [index, item] of left) results[index] = await use(item, agent);
  };
  await Promise.all(Array.from({ length: 16 }, work));
  agent.destroy();
  return results;
}

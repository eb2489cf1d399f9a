/** Checks whether memory grows with the number of requests. It sends a mix of requests and measures the collected heap. */
import { once } from "node:events";
import net from "node:net";

import { requestBytes } from "./raw-client.ts";
import { nextNumber, startGatewayProcess, startOrigin } from "./servers.ts";
import { printTable } from "./table.ts";

/** The cache and the ledger are full after the first tenth of the requests. Expired answers are fetched again. */
const SETTINGS = `
pages: { fold: off }
cache: { ttl: 5s, maxBytes: 8MiB, honourUpstream: false }
ledger: { maxRecords: 1000 }
`;
const CONNECTIONS = 16;
const SAMPLES = 20;
/** The heap may grow by this part in the second half. */
const TOLERANCE = 0.05;

/** @throws {Error} if the heap has grown in the second half */
export async function benchLeaks(requests: number): Promise<void> {
  const origin = await startOrigin();
  const { port, child, stop } = await startGatewayProcess(origin.port, {
    settings: SETTINGS,
    execArgv: ["--expose-gc"],
  });
  const statuses = new Map<string, number>();
  const heap: [requests: number, megabytes: number][] = [];
  let sent = 0;
  for (let sample = 1; sample <= SAMPLES; sample++) {
    const until = Math.round((requests * sample) / SAMPLES);
    const take = (): number | undefined => (sent < until ? sent++ : undefined);
    await Promise.all(Array.from({ length: CONNECTIONS }, () => sendAll(port, take, statuses)));
    child.send("reload");
    child.send("heap");
    heap.push([sent, (await nextNumber(child, "heapBytes")) / 1024 / 1024]);
  }
  await stop();
  await origin.stop();

  const rows = [...statuses.keys()]
    .toSorted()
    .map((status) => [status, (statuses.get(status) ?? 0).toLocaleString("en")]);
  printTable(`Responses to ${requests.toLocaleString("en")} mixed requests`, ["status", "requests"], rows);
  const secondHalf = heap.slice(SAMPLES / 2 - 1).map(([, megabytes]) => megabytes);
  const [first = 0, last = 0] = [secondHalf[0], secondHalf.at(-1)];
  const change = (last - first) / first;
  const megabytes = (value: number): string => `${value.toFixed(1)} MiB`;
  printTable(
    "The heap after collections",
    ["", ""],
    [
      ["after half of the requests", megabytes(first)],
      ["after all requests", megabytes(last)],
      ["change", `${(change * 100).toFixed(1)} %`],
    ],
  );
  if (change > TOLERANCE) throw new Error(`The heap has grown by ${(change * 100).toFixed(1)} %.`);
}

/** @returns the nth request: mostly hits, and some requests of every other kind */
function requestOf(nth: number): { readonly bytes: Buffer; readonly isCutOff: boolean } {
  const page = `/listings?limit=5&areaId=${1 + (nth % 40)}&_=${nth % 5_000}`;
  const turn = nth % 200;
  const isCutOff = turn === 7;
  if (turn < 4 || isCutOff) return { bytes: requestBytes(`/listings?limit=5&minListPrice=${nth}`), isCutOff };
  if (turn < 30) return { bytes: requestBytes(page, ["If-None-Match: *"]), isCutOff };
  if (turn < 34) return { bytes: requestBytes(`/listings?limit=none&_=${nth}`), isCutOff };
  if (turn < 36) return { bytes: requestBytes(`/nowhere/${nth}`), isCutOff };
  if (turn < 38) return { bytes: requestBytes(page, [`X-App-Id: app-${nth % 10_000}`]), isCutOff };
  if (turn < 50) return { bytes: requestBytes(page, ["Accept-Encoding: br"]), isCutOff };
  return { bytes: requestBytes(page), isCutOff };
}

/** Sends one request after the other, and opens a new connection after one that was cut off. */
async function sendAll(
  port: number,
  take: () => number | undefined,
  statuses: Map<string, number>,
): Promise<void> {
  const count = (status: string): void => void statuses.set(status, (statuses.get(status) ?? 0) + 1);
  let socket: net.Socket | undefined;
  for (let nth = take(); nth !== undefined; nth = take()) {
    socket ??= net.connect(port, "127.0.0.1").setNoDelay(true);
    const { bytes, isCutOff } = requestOf(nth);
    if (isCutOff) {
      const closed = once(socket, "close");
      socket.write(bytes, () => socket?.destroy());
      await closed;
      count("the caller hung up");
      socket = undefined;
    } else count(await statusOf(socket, bytes));
  }
  socket?.destroy();
}

/** @returns the status of the response, when all of it has arrived */
function statusOf(socket: net.Socket, request: Buffer): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let received: Buffer = Buffer.alloc(0);
  const onData = (chunk: Buffer): void => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const headEnd = received.indexOf("\r\n\r\n");
    if (headEnd === -1) return;
    const head = received.toString("latin1", 0, headEnd);
    const status = head.slice(9, 12);
    const length = status === "304" ? 0 : Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1]);
    if (received.length < headEnd + 4 + length) return;
    socket.off("data", onData).off("close", onClose);
    resolve(status);
  };
  const onClose = (): void => reject(new Error("the connection was closed"));
  socket.on("data", onData).once("close", onClose);
  socket.write(request);
  return promise;
}

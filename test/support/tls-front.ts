/** TLS in front of a server that speaks none. */
import net from "node:net";
import tls from "node:tls";

import { onTestFinished } from "vitest";

import type { Certificate } from "./certificates.ts";
import { portOf } from "./ports.ts";

export interface TlsFront {
  readonly port: number;
  /** Bytes that came through from callers, decrypted. */
  readonly bytes: () => number;
  /** The number of all connections so far. */
  readonly connections: () => number;
}

export async function startTlsFront(targetPort: number, certificate: Certificate): Promise<TlsFront> {
  let bytes = 0;
  let connections = 0;
  const open = new Set<net.Socket>();
  const server = tls.createServer({ ...certificate }, (caller) => {
    const target = net.connect(targetPort, "127.0.0.1");
    caller.on("data", (piece) => (bytes += piece.length));
    caller.pipe(target).pipe(caller);
    for (const [socket, other] of [[caller, target] as const, [target, caller] as const]) {
      socket.on("error", () => undefined);
      socket.on("close", () => other.destroy());
    }
  });
  server.on("connection", (socket) => {
    connections++;
    open.add(socket);
    socket.on("close", () => open.delete(socket));
  });
  // Callers that refuse the certificate disconnect.
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return { port: portOf(server), bytes: () => bytes, connections: () => connections };
}

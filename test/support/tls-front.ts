/** TLS in front of a server that speaks none. */
import net from "node:net";
import tls from "node:tls";

import type { Certificate } from "./certificates.ts";
import { serve } from "./serve.ts";

/** @returns also the decrypted bytes that came through from callers, and the number of all connections so far */
export async function startTlsFront(targetPort: number, certificate: Certificate) {
  let bytes = 0;
  let connections = 0;
  const server = tls.createServer({ ...certificate }, (caller) => {
    const target = net.connect(targetPort, "127.0.0.1");
    caller.on("data", (piece) => (bytes += piece.length));
    caller.pipe(target).pipe(caller);
    for (const [socket, other] of [[caller, target] as const, [target, caller] as const]) {
      socket.on("error", () => undefined);
      socket.on("close", () => other.destroy());
    }
  });
  server.on("connection", () => connections++);
  // Callers that refuse the certificate disconnect.
  server.on("tlsClientError", () => undefined);
  return { port: await serve(server), bytes: () => bytes, connections: () => connections };
}

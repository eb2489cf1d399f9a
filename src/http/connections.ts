/**
 * How many connections there may be, and what becomes of those beyond.
 *
 * Node would close them without a word, which a caller cannot tell from a gateway that is down. So some more are
 * taken, to answer their first request with a problem; those beyond that are closed by Node.
 */
import type { Server } from "node:http";
import type { Duplex } from "node:stream";

/** Connections taken beyond the limit, only to be refused: a part of the limit. */
const TO_BE_REFUSED = 0.1;
/** How long one of them has for the request that is refused. */
const TO_BE_REFUSED_MS = 1_000;

export interface ConnectionsOptions {
  readonly maxConnections: number;
  /** A clock's timer, in milliseconds; the returned function cancels it. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
  /** A connection is beyond the limit. */
  readonly onCrowded: () => void;
}

/** @returns whether a connection is one beyond the limit, whose requests are to be refused */
export function limitConnections(server: Server, options: ConnectionsOptions): (socket: Duplex) => boolean {
  const { maxConnections, after, onCrowded } = options;
  const beyond = new WeakSet<Duplex>();
  let open = 0;
  server.maxConnections = maxConnections + Math.ceil(maxConnections * TO_BE_REFUSED);
  server.on("drop", onCrowded);
  server.on("connection", (socket) => {
    open++;
    socket.once("close", () => open--);
    if (open <= maxConnections) return;
    beyond.add(socket);
    socket.once(
      "close",
      after(TO_BE_REFUSED_MS, () => socket.destroy()),
    );
    onCrowded();
  });
  return (socket) => beyond.has(socket);
}

/**
 * Limits the number of connections, and the bytes that wait for callers to read them.
 *
 * A silent connection is one on which no complete request head has arrived. Opening thousands of them is cheap, so they must
 * not lock out other callers. Every new connection is accepted:
 *
 * | open connections                    | a new one closes silent ones, the oldest first,    |
 * |-------------------------------------|----------------------------------------------------|
 * | fewer than the limit                | never                                              |
 * | the limit, or up to a tenth more    | unless their first request may still be on its way |
 * | more                                | always                                             |
 *
 * Node would close connections over the limit without a response. To the caller, the gateway would seem to be down. So the first
 * request of a connection is refused with a problem if the limit is reached by connections that have sent a request.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

import type { Clock } from "../../process/clock.ts";
import type { HttpServer } from "../../process/listen.ts";

/** The number of spare places, as a fraction of the limit. */
const SPARE = 0.1;
/** The first request of a younger connection may be on its way. */
const MIN_SILENCE_MS = 100;

/**
 * @param onFull called when a connection over the limit is opened
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function limitConnections(
  server: HttpServer,
  maxConnections: number,
  now: Clock["now"],
  onFull: () => void,
) {
  // By the caller's address and port, because the socket of a request over TLS is another object.
  const open = new Map<string, Socket>();
  /** When each silent connection was opened. The oldest first. */
  const silent = new Map<string, number>();

  function forget(peer: string): void {
    open.delete(peer);
    silent.delete(peer);
  }

  function makeRoom(): void {
    if (open.size < maxConnections) return;
    onFull();
    for (const [peer, since] of silent) {
      const isYoung = now() - since < MIN_SILENCE_MS;
      if (open.size < maxConnections * (isYoung ? 1 + SPARE : 1)) return;
      open.get(peer)?.destroy();
      // The `close` event may come after the next connection.
      forget(peer);
    }
  }

  server.on("connection", (socket: Socket) => {
    const peer = peerOf(socket);
    makeRoom();
    open.set(peer, socket);
    silent.set(peer, now());
    socket.once("close", () => {
      if (open.get(peer) === socket) forget(peer);
    });
  });
  return {
    /** Call it at the first request of a connection. @returns whether the request must be refused */
    isOneTooMany: (socket: Socket): boolean => {
      silent.delete(peerOf(socket));
      return open.size - silent.size > maxConnections;
    },
    /** Resets a connection whose caller reads nothing. After a plain close, the kernel would hold the bytes for minutes. */
    reset: (socket: Socket): void => void open.get(peerOf(socket))?.resetAndDestroy(),
  };
}

const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;

/** The most bytes of finished responses that wait for their callers to read. */
const MAX_UNSENT_BYTES = 64 * 1024 * 1024;

/**
 * Limits how long finished responses wait for callers that read nothing, and their memory. Above the limit, the connection
 * whose response has waited longest is reset.
 * @param timeoutMs how long a caller may read nothing
 * @param reset resets a connection
 * @returns a function to call with each response
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function limitUnsent(timeoutMs: number, reset: (socket: Socket) => void, maxBytes = MAX_UNSENT_BYTES) {
  /** The unsent bytes of each response, the oldest first. */
  const unsent = new Map<ServerResponse, number>();
  let total = 0;

  function add(response: ServerResponse): void {
    response.req.socket.setTimeout(timeoutMs);
    unsent.set(response, response.writableLength);
    total += response.writableLength;
    for (const [oldest] of unsent) {
      if (total <= maxBytes) return;
      remove(oldest);
      reset(oldest.req.socket);
    }
  }

  function remove(response: ServerResponse): void {
    total -= unsent.get(response) ?? 0;
    unsent.delete(response);
  }

  return (response: ServerResponse): void => {
    if (response.writableEnded) add(response);
    else response.once("prefinish", () => add(response));
    response.once("timeout", reset);
    // Runs before Node's own listener, which sets the keep-alive timeout.
    response.prependOnceListener("finish", () => response.req.socket.setTimeout(0));
    response.once("close", () => remove(response));
  };
}

/**
 * Whether the kernel has the whole response. Then there is no need to wait for the events of the response.
 */
export function isSent(response: ServerResponse): boolean {
  const { socket } = response;
  return response.writableEnded && response.writableLength === 0 && socket !== null && !socket.destroyed;
}

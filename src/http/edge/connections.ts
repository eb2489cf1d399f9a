/**
 * Limits the number of connections, and the bytes that wait for callers to read them.
 *
 * A silent connection is one on which no complete request head has arrived. Opening thousands of them is cheap, so they must
 * not lock out other callers:
 *
 * | open connections               | a new one                                                               |
 * |--------------------------------|-------------------------------------------------------------------------|
 * | fewer than the limit           | is accepted                                                             |
 * | the limit, some of them silent | is accepted; the oldest silent one is closed                            |
 * | the limit, the silent ones new | gets a spare place; its first request closes the oldest silent one      |
 * | the limit, none of them silent | gets a spare place; its first request is refused, unless it is a health |
 * |                                | check                                                                   |
 *
 * Node would close connections over the limit without a response. To the caller, the gateway would seem to be down. So there
 * are some spare places. A connection keeps one for a second at most, and loses it when a newer one needs it.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

import type { Clock } from "../../process/clock.ts";
import type { HttpServer } from "../../process/listen.ts";

/** The number of spare places, as a fraction of the limit. */
const SPARE = 0.1;
const SPARE_MS = 1_000;
/** A younger connection is not closed to make room, because its first request may be on its way. */
const MIN_SILENCE_MS = 100;

export interface ConnectionsOptions extends Pick<Clock, "after" | "now"> {
  readonly maxConnections: number;
  /** Called when the limit is reached. A silent connection is closed to make room, or the new one is refused. */
  readonly onFull: () => void;
}

/**
 * @returns a function to call at the first request of a connection. It returns whether the connection is over the limit.
 */
export function limitConnections(
  server: HttpServer,
  { maxConnections, after, now, onFull }: ConnectionsOptions,
): (socket: Socket) => boolean {
  const open = new Set<Socket>();
  // By the caller's address and port, because the socket of a request over TLS is another object. The oldest first.
  const silent = new Map<string, { readonly socket: Socket; readonly since: number }>();
  const spare = new Map<string, Socket>();

  function forget(peer: string, socket: Socket): void {
    open.delete(socket);
    silent.delete(peer);
    spare.delete(peer);
  }

  function close(peer: string, socket: Socket): void {
    // The `close` event may come after the next connection.
    forget(peer, socket);
    socket.destroy();
  }

  function makeRoom(): void {
    if (open.size < maxConnections) return;
    onFull();
    for (const [peer, { socket, since }] of silent) {
      if (open.size < maxConnections || now() - since < MIN_SILENCE_MS) return;
      close(peer, socket);
    }
  }

  function takeSparePlace(peer: string, socket: Socket): void {
    for (const [oldest, displaced] of spare) {
      if (spare.size < maxConnections * SPARE) break;
      close(oldest, displaced);
    }
    spare.set(peer, socket);
    after(SPARE_MS, () => {
      if (spare.get(peer) === socket) close(peer, socket);
    });
  }

  server.on("connection", (socket: Socket) => {
    const peer = peerOf(socket);
    socket.once("close", () => forget(peer, socket));
    makeRoom();
    if (open.size >= maxConnections) return takeSparePlace(peer, socket);
    open.add(socket);
    silent.set(peer, { socket, since: now() });
  });
  return (socket) => {
    const peer = peerOf(socket);
    silent.delete(peer);
    const inSparePlace = spare.get(peer);
    if (inSparePlace === undefined) return false;
    const [oldest] = silent;
    if (oldest !== undefined) close(oldest[0], oldest[1].socket);
    if (open.size >= maxConnections) return true;
    spare.delete(peer);
    open.add(inSparePlace);
    return false;
  };
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** The most bytes of finished responses that wait for their callers to read. */
const MAX_UNSENT_BYTES = 64 * 1024 * 1024;

/**
 * Limits how long finished responses wait for callers that read nothing, and their memory. Above the limit, the connection
 * whose response has waited longest is closed.
 * @param timeoutMs how long a caller may read nothing
 * @returns a function to call with each response
 */
export function limitUnsent(
  timeoutMs: number,
  maxBytes = MAX_UNSENT_BYTES,
): (response: ServerResponse) => void {
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
      oldest.req.socket.destroy();
    }
  }

  function remove(response: ServerResponse): void {
    total -= unsent.get(response) ?? 0;
    unsent.delete(response);
  }

  return (response) => {
    if (response.writableEnded) add(response);
    else response.once("prefinish", () => add(response));
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

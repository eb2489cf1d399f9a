/**
 * Limits the number of connections.
 *
 * A silent connection is one that has sent nothing yet. Opening thousands of them is cheap, so they must not lock out
 * other callers:
 *
 * | open connections                   | silent connections                              | a new one   |
 * |------------------------------------|-------------------------------------------------|-------------|
 * | up to 80 % of the limit            | have the usual time for their first request     | is accepted |
 * | more than 80 %                     | are closed after one second                     | is accepted |
 * | the limit, some of them silent     | the oldest is closed to make room               | is accepted |
 * | the limit, none of them silent     |                                                 | is refused  |
 *
 * Node would close connections over the limit without a response. To the caller, the gateway would seem to be down. So the
 * gateway accepts a few more and answers their first request with a problem. Node closes all others. With TLS, Node closes
 * every connection over the limit, because a request does not show which TCP connection it uses.
 */
import type { Socket } from "node:net";
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

import type { Clock } from "../process/clock.ts";
import type { HttpServer } from "../process/listen.ts";

/** Connections that are accepted over the limit only to be refused, as a fraction of the limit. */
const OVER_LIMIT_FRACTION = 0.1;
/** The gateway closes such a connection after this time. */
const OVER_LIMIT_MS = 1_000;
/** Above this fraction of the limit, a connection must send its first byte within `FIRST_BYTE_MS`. */
const NEARLY_FULL = 0.8;
const FIRST_BYTE_MS = 1_000;
/** Timers may fire a little early. */
const TIMER_TOLERANCE_MS = 10;
/** A younger connection is not closed to make room, because its first request may be on its way. */
const MIN_SILENCE_MS = 100;

export interface ConnectionsOptions {
  readonly maxConnections: number;
  readonly after: Clock["after"];
  readonly now: Clock["now"];
  /** Called when the limit is reached. A silent connection is closed to make room, or the new one is refused. */
  readonly onFull: () => void;
}

/** @returns a function that tells whether a connection is over the limit. Its requests must then be refused. */
export function limitConnections(
  server: HttpServer,
  options: ConnectionsOptions,
): (socket: Duplex) => boolean {
  const { maxConnections, after, now, onFull } = options;
  const open = new Set<Socket>();
  const overLimit = new WeakSet<Duplex>();
  /** When each silent connection was opened, the oldest first. */
  const silentSince = new Map<Socket, number>();

  /** @returns the oldest silent connection, if it has been silent for at least this long */
  function oldestSilent(atLeastMs: number): Socket | undefined {
    for (const [socket, since] of silentSince) {
      // Checked only here, because a listener for data would slow every connection down.
      if (socket.bytesRead > 0) silentSince.delete(socket);
      else return now() - since >= atLeastMs ? socket : undefined;
    }
    return undefined;
  }

  /** Removes the connection from the count immediately. Its `close` event may come after the next connection. */
  function close(socket: Socket): void {
    open.delete(socket);
    silentSince.delete(socket);
    socket.destroy();
  }

  function closeOverdue(): void {
    while (open.size > maxConnections * NEARLY_FULL) {
      const socket = oldestSilent(FIRST_BYTE_MS);
      if (socket === undefined) return;
      close(socket);
    }
  }

  function makeRoom(): void {
    if (open.size >= maxConnections) onFull();
    while (open.size >= maxConnections) {
      const socket = oldestSilent(MIN_SILENCE_MS);
      if (socket === undefined) return;
      close(socket);
    }
  }

  const hasTls = "setSecureContext" in server;
  server.maxConnections = maxConnections + (hasTls ? 0 : Math.ceil(maxConnections * OVER_LIMIT_FRACTION));
  server.on("drop", onFull);
  server.on("connection", (socket) => {
    makeRoom();
    open.add(socket);
    const isOverLimit = open.size > maxConnections;
    if (isOverLimit) overLimit.add(socket);
    else silentSince.set(socket, now());
    closeOverdue();
    const cancel = isOverLimit
      ? after(OVER_LIMIT_MS, () => socket.destroy())
      : after(FIRST_BYTE_MS + TIMER_TOLERANCE_MS, closeOverdue);
    socket.once("close", () => {
      cancel();
      open.delete(socket);
      silentSince.delete(socket);
    });
  });
  return (socket) => overLimit.has(socket);
}

/** The most bytes of finished responses that wait for their callers to read. */
const MAX_UNSENT_BYTES = 128 * 1024 * 1024;

/**
 * Limits the memory of finished responses that callers do not read. Above the limit, the connection whose response has
 * waited longest is closed.
 */
export function limitUnsent(maxBytes = MAX_UNSENT_BYTES): {
  readonly watch: (socket: Socket, response: ServerResponse) => void;
} {
  /** The oldest first. */
  const unsent = new Map<ServerResponse, { readonly socket: Socket; readonly bytes: number }>();
  let total = 0;

  function add(response: ServerResponse, socket: Socket): void {
    const bytes = response.writableLength;
    unsent.set(response, { socket, bytes });
    total += bytes;
    for (const [oldest, { socket: stalled }] of unsent) {
      if (total <= maxBytes) return;
      remove(oldest);
      stalled.destroy();
    }
  }

  function remove(response: ServerResponse): void {
    total -= unsent.get(response)?.bytes ?? 0;
    unsent.delete(response);
  }

  return {
    watch(socket, response) {
      if (response.writableEnded) add(response, socket);
      else response.once("prefinish", () => add(response, socket));
      response.once("close", () => remove(response));
    },
  };
}

/**
 * Whether the kernel has the whole response. Then there is no need to wait for the events of the response.
 */
export function isSent(response: ServerResponse): boolean {
  const { socket } = response;
  // A pipelined response gets its socket only when the responses before it have ended.
  return response.writableEnded && response.writableLength === 0 && socket !== null && !socket.destroyed;
}

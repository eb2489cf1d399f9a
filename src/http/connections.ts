/**
 * How many connections there may be, which are closed to make room, and what becomes of those beyond.
 *
 * A connection that has sent nothing costs its owner nothing, so a few thousand of them must not lock out others:
 *
 * | connections                        | a silent connection                             | a new one  |
 * |------------------------------------|-------------------------------------------------|------------|
 * | up to 80 % of the limit            | has the usual time for its first request        | is taken   |
 * | more                               | is closed when it has been silent for a second  | is taken   |
 * | all, some of them silent           | the oldest is closed for a new one              | is taken   |
 * | all, each has sent something       |                                                 | is refused |
 *
 * Node would close those beyond without a word, which a caller cannot tell from a gateway that is down. So some more
 * are taken, to answer their first request with a problem; those beyond that are closed by Node.
 */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** Connections taken beyond the limit, only to be refused: a part of the limit. */
const TO_BE_REFUSED = 0.1;
/** How long one of them has for the request that is refused. */
const TO_BE_REFUSED_MS = 1_000;
/** The part of the limit above which a connection has to send its first byte soon. */
const NEARLY_FULL = 0.8;
const FIRST_BYTE_MS = 1_000;
/** A timer may fire a little early by the clock. */
const TIMER_MS = 10;
/** A request that was sent at once has arrived by then: a burst of callers must not push each other out. */
const ARRIVAL_MS = 100;

export interface ConnectionsOptions {
  readonly maxConnections: number;
  /** A clock's timer, in milliseconds; the returned function cancels it. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
  readonly now: () => number;
  /** All connections are taken: a silent one is closed for a new one, or the new one is refused. */
  readonly onCrowded: () => void;
}

/** @returns whether a connection is one beyond the limit, whose requests are to be refused */
export function limitConnections(server: Server, options: ConnectionsOptions): (socket: Duplex) => boolean {
  const { maxConnections, after, now, onCrowded } = options;
  const open = new Set<Socket>();
  const beyond = new WeakSet<Duplex>();
  /** When each of those that have sent nothing was opened; the oldest first. */
  const silentSince = new Map<Socket, number>();

  /** The oldest silent connection, where it has been silent for so long. */
  function oldestSilent(atLeastMs: number): Socket | undefined {
    for (const [socket, since] of silentSince) {
      // Asked when it matters: a listener for data would slow every connection down.
      if (socket.bytesRead > 0) silentSince.delete(socket);
      else return now() - since >= atLeastMs ? socket : undefined;
    }
    return undefined;
  }

  /** Forgets it at once, not when it has closed: the next connection may be counted before that. */
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
    if (open.size >= maxConnections) onCrowded();
    while (open.size >= maxConnections) {
      const socket = oldestSilent(ARRIVAL_MS);
      if (socket === undefined) return;
      close(socket);
    }
  }

  server.maxConnections = maxConnections + Math.ceil(maxConnections * TO_BE_REFUSED);
  server.on("drop", onCrowded);
  server.on("connection", (socket) => {
    makeRoom();
    open.add(socket);
    const isBeyond = open.size > maxConnections;
    if (isBeyond) beyond.add(socket);
    else silentSince.set(socket, now());
    closeOverdue();
    const cancel = isBeyond
      ? after(TO_BE_REFUSED_MS, () => socket.destroy())
      : after(FIRST_BYTE_MS + TIMER_MS, closeOverdue);
    socket.once("close", () => {
      cancel();
      open.delete(socket);
      silentSince.delete(socket);
    });
  });
  return (socket) => beyond.has(socket);
}

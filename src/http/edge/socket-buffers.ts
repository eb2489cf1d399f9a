/**
 * Limits the bytes that the kernel holds for callers that read slowly. They count towards the memory of a container, but Node
 * does not report them. So the gateway reads Linux' table of connections, but only while the connections may hold too much.
 */
import { readFile } from "node:fs/promises";
import type { Server, Socket } from "node:net";

import { type Clock, every } from "../../process/clock.ts";

const MAX_SOCKET_BYTES = 64 * 1024 * 1024;
const CHECK_MS = 1_000;
/** The kernel normally holds no more than this for one connection. */
const MOST_PER_SOCKET = 4 * 1024 * 1024;
const TABLES = ["/proc/net/tcp", "/proc/net/tcp6"];

/**
 * Above the limit, closes the connections with the most unread bytes. On systems other than Linux, closes none.
 * @param maxBytes of all connections of the server together
 */
export function limitSocketBuffers(
  server: Server,
  after: Clock["after"],
  onClosed: (connections: number) => void,
  maxBytes = MAX_SOCKET_BYTES,
): void {
  /** The open connections, and how many bytes each is known to have taken. */
  const open = new Map<Socket, number>();
  let isChecking = false;
  server.on("connection", (socket: Socket) => {
    open.set(socket, 0);
    socket.once("close", () => open.delete(socket));
  });
  server.once("listening", () =>
    server.once(
      "close",
      every({ after }, CHECK_MS, () => void check()),
    ),
  );

  /** The most that the kernel can hold for the connections. */
  function mostHeld(): number {
    let sum = 0;
    for (const [{ bytesWritten }, taken] of open) sum += Math.min(bytesWritten - taken, MOST_PER_SOCKET);
    return sum;
  }

  async function check(): Promise<void> {
    if (isChecking || mostHeld() <= maxBytes) return;
    isChecking = true;
    // Without the bytes that still wait in this process.
    const sent = new Map(
      [...open.keys()].map((socket) => [socket, socket.bytesWritten - socket.writableLength]),
    );
    const table = await Promise.all(TABLES.map((file) => readFile(file, "latin1").catch(() => "")));
    isChecking = false;
    const held = bytesHeld(table.join("\n"));
    const readers = [...sent.keys()]
      .map((socket) => ({ socket, bytes: held.get(nameOf(socket)) ?? 0 }))
      .toSorted((a, b) => b.bytes - a.bytes);
    let total = readers.reduce((sum, { bytes }) => sum + bytes, 0);
    let closed = 0;
    for (const { socket, bytes } of readers) {
      if (open.has(socket)) open.set(socket, (sent.get(socket) ?? 0) - bytes);
      if (total <= maxBytes) continue;
      total -= bytes;
      closed++;
      // With a plain close, the kernel would go on holding the bytes.
      socket.resetAndDestroy();
    }
    if (closed > 0) onClosed(closed);
  }
}

/** A row has the two addresses, the state, and the bytes that the caller has not taken; all numbers are hexadecimal. */
const ROW = /^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]{2} ([0-9A-F]{8}):/gm;

/** @returns the bytes by the name of the connection */
function bytesHeld(table: string): Map<string, number> {
  const rows = [...table.matchAll(ROW)].map(([, ...row]) => row.map((hex) => parseInt(hex, 16)));
  return new Map(
    rows.flatMap(([local, remote, bytes = 0]) => (bytes > 0 ? [[`${local} ${remote}`, bytes]] : [])),
  );
}

/** Both ports. If two machines use the same port, the bytes of one connection also count for the other. That is rare. */
function nameOf({ localPort, remotePort }: Socket): string {
  return `${localPort} ${remotePort}`;
}

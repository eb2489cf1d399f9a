/**
 * Limits the bytes that the kernel holds for callers that read slowly. They count towards the memory of a container, but Node
 * does not report them. So the gateway reads Linux' table of connections, but only while its connections may hold too much.
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

  async function check(): Promise<void> {
    let mostHeld = 0;
    for (const [{ bytesWritten }, taken] of open) mostHeld += Math.min(bytesWritten - taken, MOST_PER_SOCKET);
    if (mostHeld <= maxBytes) return;
    // Without the bytes that still wait in this process.
    const connections = Array.from(open.keys(), (socket) => {
      return { socket, sent: socket.bytesWritten - socket.writableLength };
    });
    const tables = await Promise.all(TABLES.map((file) => readFile(file, "latin1").catch(() => "")));
    const held = bytesHeld(tables.join("\n"));
    const readers = connections.map((each) => ({ ...each, bytes: held.get(nameOf(each.socket)) ?? 0 }));
    let total = readers.reduce((sum, { bytes }) => sum + bytes, 0);
    let closed = 0;
    for (const { socket, sent, bytes } of readers.toSorted((a, b) => b.bytes - a.bytes)) {
      if (open.has(socket)) open.set(socket, sent - bytes);
      if (total <= maxBytes) continue;
      total -= bytes;
      closed++;
      // With a plain close, the kernel would go on holding the bytes.
      socket.resetAndDestroy();
    }
    if (closed > 0) onClosed(closed);
  }
}

/**
 * A row has the two addresses, the state, and the number of bytes that the caller has not taken; all numbers are hexadecimal. The
 * expression skips rows without such bytes, which are most rows.
 */
const ROW = /^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]{2} (?!0{8})([0-9A-F]{8}):/gm;

/** @returns the bytes by the name of the connection */
function bytesHeld(table: string): Map<string, number> {
  return new Map(
    Array.from(table.matchAll(ROW), ([, ...row]) => {
      const [local, remote, bytes = 0] = row.map((hex) => parseInt(hex, 16));
      return [`${local} ${remote}`, bytes];
    }),
  );
}

/** Both ports. If two machines use the same port, the bytes of one connection also count for the other. That is rare. */
const nameOf = ({ localPort, remotePort }: Socket): string => `${localPort} ${remotePort}`;

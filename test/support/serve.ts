import type { Server, Socket } from "node:net";

import { onTestFinished } from "vitest";

import { portOf } from "./ports.ts";

/** Lets a server of any kind listen on 127.0.0.1. It ends with the test, and so do its connections. @returns its port */
export async function serve(server: Server): Promise<number> {
  const open = new Set<Socket>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return portOf(server);
}

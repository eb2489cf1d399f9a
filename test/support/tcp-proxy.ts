/**
 * A TCP proxy that can be slow, cut its connections, or drop everything silently.
 */
import { connect, createServer, type Socket } from "node:net";

import { portOf } from "./ports.ts";

export interface TcpProxy {
  readonly port: number;
  /** Connections open at present. */
  readonly connections: () => number;
  /** From now on every piece that comes back from the target is this late. 0: no longer. */
  readonly delay: (ms: number) => void;
  /** Cuts every connection. New ones are accepted. */
  readonly cut: () => void;
  /** From now on everything is dropped silently, also on new connections. */
  readonly blackHole: () => void;
  /** New connections work again. The connections that were open before remain dead. */
  readonly heal: () => void;
  readonly close: () => Promise<void>;
}

export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  /** Replaced when all current connections are to die silently. */
  let era = { isSwallowing: false };
  let delayMs = 0;

  const server = createServer((caller) => {
    const mine = era;
    const target = connect(targetPort, "127.0.0.1");
    const pair = [caller, target] as const;
    pairs.add(pair);
    caller.on("data", (piece) => {
      if (!mine.isSwallowing) target.write(piece);
    });
    target.on("data", (piece) => {
      const pass = (): void => {
        if (!mine.isSwallowing) caller.write(piece);
      };
      if (delayMs === 0) pass();
      else setTimeout(pass, delayMs);
    });
    for (const [socket, other] of [pair, pair.toReversed()] as const) {
      socket?.on("error", () => undefined);
      socket?.on("close", () => {
        if (!mine.isSwallowing || socket === caller) other?.destroy();
        pairs.delete(pair);
      });
    }
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));

  function cut(): void {
    for (const [caller, target] of pairs) {
      caller.destroy();
      target.destroy();
    }
  }

  return {
    port: portOf(server),
    connections: () => pairs.size,
    delay: (ms) => void (delayMs = ms),
    cut,
    blackHole: () => void (era.isSwallowing = true),
    heal: () => void (era = { isSwallowing: false }),
    async close() {
      const closed = new Promise((resolve) => void server.close(resolve));
      cut();
      await closed;
    },
  };
}

/** A TCP proxy that can be slow, cut its connections, or drop everything silently. It ends with the test. */
import { connect, createServer, type Socket } from "node:net";

import { serve } from "./serve.ts";

export type TcpProxy = Awaited<ReturnType<typeof startTcpProxy>>;

export async function startTcpProxy(firstPort: number) {
  let targetPort = firstPort;
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

  function cut(): void {
    for (const [caller, target] of pairs) {
      caller.destroy();
      target.destroy();
    }
  }

  return {
    port: await serve(server),
    /** All connections are cut. New ones reach this port. */
    move: (port: number): void => {
      targetPort = port;
      cut();
    },
    /** From now on every piece that comes back from the target is this late. 0: no longer. */
    delay: (ms: number) => void (delayMs = ms),
    /** Cuts every connection. New ones are accepted. */
    cut,
    /** From now on everything is dropped silently, also on new connections. */
    blackHole: () => void (era.isSwallowing = true),
    /** New connections work again. The connections that were open before remain dead. */
    heal: () => void (era = { isSwallowing: false }),
  };
}

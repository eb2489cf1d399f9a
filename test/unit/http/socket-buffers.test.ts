/** Callers that read nothing, and the bytes that the kernel holds for them. Linux alone says how many these are. */
import { createServer } from "node:http";
import { connect, Socket } from "node:net";
import { promisify } from "node:util";

import { describe, expect, it, onTestFinished } from "vitest";

import { limitSocketBuffers } from "../../../src/http/edge/socket-buffers.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { portOf } from "../../support/ports.ts";

const MIB = 1024 * 1024;
const LIMIT = 4 * MIB;
const CALLERS = 12;
const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

describe.runIf(process.platform === "linux")("the bytes that the kernel holds for callers", () => {
  it("stay below the limit; a caller that reads is not closed, also with IPv6", async () => {
    const host = "::1";
    const body = Buffer.alloc(16 * MIB);
    const closed: number[] = [];
    const server = createServer((_request, response) => void response.end(body));
    limitSocketBuffers(server, systemClock.after, (connections) => void closed.push(connections), LIMIT);
    await new Promise<void>((resolve) => void server.listen(0, host, resolve));
    const port = portOf(server);
    const callers: Socket[] = [];
    onTestFinished(() => {
      for (const caller of callers) caller.destroy();
      server.close();
    });
    // A caller that hung up before its connection was accepted has no address.
    server.emit("connection", new Socket());
    const call = (): Socket => {
      const caller = connect(port, host).on("error", () => undefined);
      caller.write(REQUEST);
      callers.push(caller);
      return caller;
    };
    const reader = call();
    let bytes = 0;
    reader.on("data", (piece) => void (bytes += piece.length));
    for (let n = 1; n < CALLERS; n++) call().pause();
    await expect.poll(() => closed.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(CALLERS / 2);
    reader.write(REQUEST);
    await expect.poll(() => bytes).toBeGreaterThan(2 * body.length);
    const countOpen = promisify(server.getConnections.bind(server));
    await expect.poll(() => countOpen()).toBeLessThan(CALLERS / 2);
  });
});

import http from "node:http";

import { expect, it } from "vitest";

import { limitUnsent } from "../../../src/http/edge/connections.ts";
import { ask, askUnread } from "../../support/ask.ts";
import { serve } from "../../support/serve.ts";

/** More than the kernel keeps for one connection. */
const ANSWER = Buffer.alloc(20_000_000);

it("answers that nobody reads are bounded in all: the connection that has waited longest is closed", async () => {
  const unsent = limitUnsent(60_000, (socket) => socket.destroy(), 2.5 * ANSWER.length);
  const closed: (string | undefined)[] = [];
  const begun = new Set<string | undefined>();
  const server = http.createServer((message, response) => {
    message.socket.once("close", () => closed.push(message.url));
    response.end(message.url === "/short" ? "" : ANSWER);
    unsent(response);
    begun.add(message.url);
  });
  const port = await serve(server);
  for (const target of ["/first", "/second", "/third"]) {
    askUnread(port, `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`);
    await expect.poll(() => begun.has(target)).toBe(true);
  }
  await expect.poll(() => closed).toEqual(["/first"]);
  expect((await ask(`http://127.0.0.1:${port}/read`)).body).toHaveLength(ANSWER.length);
  expect((await ask(`http://127.0.0.1:${port}/short`)).status).toBe(200);
});

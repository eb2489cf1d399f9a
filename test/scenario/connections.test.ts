import { once } from "node:events";
import http from "node:http";
import net from "node:net";

import { describe, expect, it, onTestFinished } from "vitest";

import { askUnread, exchangeRaw } from "../support/ask.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

/** The status lines and request ids in what came back on one connection, in order. */
function answersIn(raw: string): string[] {
  const ids = [...raw.matchAll(/^x-request-id: (\S+)\r$/gim)].map(([, id]) => id);
  return [...raw.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status], at) => `${status} ${ids[at]}`);
}

function request(target: string, id: string, ...more: string[]): string {
  return [`GET ${target} HTTP/1.1`, "Host: x", `X-Request-Id: ${id}`, ...more, "", ""].join("\r\n");
}

async function stillAnswers(gateway: TestGateway): Promise<void> {
  expect((await gateway.get("/areas?q=Nacka")).status).toBe(200);
}

describe("pipelined requests", () => {
  it("are worked on one at a time, and answered in order", async () => {
    const gateway = await startGateway();
    gateway.sandbox.hold("/sold");
    const raw = exchangeRaw(
      gateway.port,
      request("/sold?limit=1", "slow") +
        request("/nowhere", "local") +
        request("/areas?limit=1", "quick") +
        request("/areas?limit=1", "same", "Connection: close"),
    );
    await gateway.sandbox.waitForRequests(1);
    // A request on another connection overtakes the ones that wait.
    await stillAnswers(gateway);
    expect(gateway.sandbox.requests()).toHaveLength(2);
    gateway.sandbox.release();
    expect(answersIn(await raw)).toEqual(["200 slow", "404 local", "200 quick", "200 same"]);
    expect(gateway.sandbox.requests()).toHaveLength(3);
  });

  it("are read no faster than they are answered", async () => {
    const gateway = await startGateway();
    const large = `X-Pad: ${"x".repeat(7_000)}`;
    const ids = Array.from({ length: 300 }, (_, at) => String(at));
    const asked = ids.map((id) => request("/areas?limit=1", id, large));
    const raw = exchangeRaw(gateway.port, asked.join("") + request("/nowhere", "last", "Connection: close"));
    expect(answersIn(await raw)).toEqual([...ids.map((id) => `200 ${id}`), "404 last"]);
  });

  it("are forgotten when their caller hangs up", async () => {
    const gateway = await startGateway();
    gateway.sandbox.hold("/sold");
    const socket = net.connect(gateway.port, "127.0.0.1");
    socket.write(Array.from({ length: 60 }, (_, at) => request(`/sold?q=${at}`, `gone-${at}`)).join(""));
    await gateway.sandbox.waitForRequests(1);
    socket.resetAndDestroy();
    await new Promise((resolve) => void socket.once("close", resolve));
    // A connection with waiting requests is not read, so the gateway notices the end when it answers.
    gateway.sandbox.release();
    expect(await gateway.logged('"msg":"request"', '"gone-0"')).toMatchObject({ outcome: "abandoned" });
    expect((await gateway.get("/nowhere")).status).toBe(404);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });
});

describe("a connection", () => {
  it("stays open after an answer, a problem, 304 and HEAD", async () => {
    const gateway = await startGateway();
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const ports = new Set<unknown>();
    agent.on("free", (socket: net.Socket) => ports.add(socket.localPort));
    const asks = [
      ["/areas?q=Nacka", "GET", {}],
      ["/areas?q=Nacka", "GET", { "if-none-match": "*" }],
      ["/areas?q=Nacka", "HEAD", {}],
      ["/areas?q=Nacka", "GET", { "cache-control": "no-store" }],
      ["/areas?limit=x", "GET", {}],
      ["/nowhere", "HEAD", {}],
      ["/areas", "POST", {}],
      ["/areas", "GET", { accept: "text/html" }],
      ["/areas?q=Nacka", "GET", {}],
    ] as const;
    for (const [path, method, headers] of asks) await gateway.get(path, { method, headers, agent });
    expect(ports.size).toBe(1);
  });

  it("with a stream whose caller does not read the answer frees its upstream slot as soon as the body has arrived", async () => {
    const gateway = await startGateway({
      settings: "upstream: { maxBodyBytes: 64MiB, bodyTimeout: 1h, totalTimeout: 1h }\n",
      env: { BUDGET_CONCURRENCY: "1" },
    });
    // More than the sockets between caller and gateway hold.
    gateway.sandbox.faults.add({ oversizeBytes: 24 * 1024 * 1024, times: 1 });
    const url = `${gateway.url}/listings?areaId=76&limit=5`;
    const response = await fetch(url, { headers: { "cache-control": "no-store" } });
    expect((await gateway.get("/areas?q=behind")).status).toBe(200);
    expect((await response.arrayBuffer()).byteLength).toBe(24 * 1024 * 1024);
  });

  it.each([
    ["for the write timeout", "300ms", 1],
    ["while more than 64 MiB wait", "1h", 4],
  ])("with a stream whose caller reads nothing %s is reset", async (_when, writeTimeout, callers) => {
    const settings = `server: { writeTimeout: ${writeTimeout} }\nupstream: { maxBodyBytes: 64MiB, totalTimeout: 1h }\n`;
    const gateway = await startGateway({ settings });
    gateway.sandbox.faults.add({ oversizeBytes: 24 * 1024 * 1024, times: callers });
    const ask = (_: unknown, at: number): net.Socket =>
      askUnread(gateway.port, request("/listings?limit=5", `${at}`, "Cache-Control: no-store"));
    const sockets = Array.from({ length: callers }, ask);
    const errors = sockets.map((socket) => once(socket, "error"));
    const { id, outcome } = await gateway.logged('"msg":"request"');
    expect(outcome).toBe("abandoned");
    // After a plain close, the kernel would go on holding bytes for the caller.
    sockets[Number(id)]?.resume();
    expect(await Promise.race(errors)).toMatchObject([{ code: "ECONNRESET" }]);
  });
});

describe("a URL with raw non-ASCII characters", () => {
  const RAW = "/listings?objectType=gård&limit=1";

  it("ends when its caller hangs up", async () => {
    const gateway = await startGateway();
    gateway.sandbox.hold();
    const socket = net.connect(gateway.port, "127.0.0.1");
    socket.write(request(RAW, "gone"));
    await gateway.sandbox.waitForRequests(1);
    socket.resetAndDestroy();
    expect(await gateway.logged('"msg":"request"', '"gone"')).toMatchObject({ outcome: "abandoned" });
    gateway.sandbox.release();
    await stillAnswers(gateway);
  });

  it.each(["1.0", "1.1"])(
    "is the last request on its connection, which the gateway closes also if the caller does not: HTTP/%s",
    async (version) => {
      const gateway = await startGateway();
      const socket = net.connect({ port: gateway.port, host: "127.0.0.1", allowHalfOpen: true });
      onTestFinished(() => void socket.destroy());
      const received: Buffer[] = [];
      socket.on("data", (chunk: Buffer) => received.push(chunk));
      // The answer to bytes on a closed connection is a reset.
      const isReset = new Promise((resolve) => void socket.once("error", resolve));
      socket.once("end", () => {
        const knock = (): void => void (socket.destroyed || socket.write("x", () => setImmediate(knock)));
        knock();
      });
      const keepAlive = request(RAW, "last", "Connection: keep-alive").replace("HTTP/1.1", `HTTP/${version}`);
      socket.write(keepAlive);
      await isReset;
      expect(answersIn(Buffer.concat(received).toString("latin1"))).toEqual(["200 last"]);
    },
  );
});

describe.runIf(process.platform === "linux")("hundreds of callers that read nothing", () => {
  it("lose their connections before the kernel holds more than 64 MiB for them; others are answered", async () => {
    const gateway = await startGateway();
    const target = "/listings?limit=500";
    expect((await gateway.get(target)).status).toBe(200);
    for (let number = 0; number < 600; number++) askUnread(gateway.port, request(target, "slow"));
    const { connections } = await gateway.logged("Callers read too slowly");
    expect(Number(connections)).toBeGreaterThan(0);
    await stillAnswers(gateway);
  });
});

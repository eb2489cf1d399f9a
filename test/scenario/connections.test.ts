import http from "node:http";
import net from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";

import { exchangeRaw } from "../support/ask.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

/** The status lines and request ids in what came back on one connection, in order. */
function answersIn(raw: string): string[] {
  const ids = [...raw.matchAll(/^x-request-id: (\S+)\r$/gim)].map(([, id]) => id);
  return [...raw.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status], at) => `${status} ${ids[at]}`);
}

function request(target: string, id: string, ...more: string[]): string {
  return [`GET ${target} HTTP/1.1`, "Host: x", `X-Request-Id: ${id}`, ...more, "", ""].join("\r\n");
}

const LOCAL = "Host: localhost";

async function stillAnswers(gateway: TestGateway): Promise<void> {
  expect((await gateway.get("/areas?q=Nacka")).status).toBe(200);
}

describe("pipelined requests", () => {
  it("are answered in order", async () => {
    const gateway = await startGateway();
    gateway.sandbox.hold("/sold");
    const raw = exchangeRaw(
      gateway.port,
      request("/sold?limit=1", "slow") +
        request("/nowhere", "local") +
        request("/areas?limit=1", "quick") +
        request("/areas?limit=1", "same", "Connection: close"),
    );
    await gateway.logged('"msg":"upstream call"', '"resource":"areas"');
    gateway.sandbox.release();
    expect(answersIn(await raw)).toEqual(["200 slow", "404 local", "200 quick", "200 same"]);
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });
});

describe("a connection with many pipelined requests", () => {
  it("has a few of them worked on at once, and all are answered in order", async () => {
    const gateway = await startGateway({ env: { BUDGET_CONCURRENCY: "100" } });
    gateway.sandbox.hold("/sold");
    const ids = Array.from({ length: 60 }, (_, at) => String(at));
    const asked = ids.map((id) => request(`/sold?q=${id}`, id));
    const raw = exchangeRaw(gateway.port, asked.join("") + request("/nowhere", "last", "Connection: close"));
    await gateway.sandbox.waitForRequests(3);
    // A request on another connection overtakes the ones that wait.
    await stillAnswers(gateway);
    expect(gateway.sandbox.requests()).toHaveLength(4);
    gateway.sandbox.release();
    expect(answersIn(await raw)).toEqual([...ids.map((id) => `200 ${id}`), "404 last"]);
  });

  it("is forgotten when its caller hangs up: what waits is not begun, and what is worked on ends", async () => {
    const gateway = await startGateway({ env: { BUDGET_CONCURRENCY: "100" } });
    gateway.sandbox.hold("/sold");
    const socket = net.connect(gateway.port, "127.0.0.1");
    socket.write(Array.from({ length: 60 }, (_, at) => request(`/sold?q=${at}`, `gone-${at}`)).join(""));
    await gateway.sandbox.waitForRequests(3);
    socket.resetAndDestroy();
    for (const id of ["gone-0", "gone-1", "gone-2"])
      expect(await gateway.logged('"msg":"request"', `"${id}"`)).toMatchObject({ outcome: "abandoned" });
    gateway.sandbox.release();
    expect((await gateway.get("/nowhere")).status).toBe(404);
    expect(gateway.sandbox.requests()).toHaveLength(3);
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

  it("with two Accept headers is answered", async () => {
    const gateway = await startGateway();
    const twice = ["Accept: text/html", "Accept: application/json"];
    const raw = await exchangeRaw(
      gateway.port,
      request("/areas?q=Nacka", "x", "Connection: close", ...twice),
    );
    expect(answersIn(raw)).toEqual(["200 x"]);
  });

  /** Node drops what follows such a request in the same packet. So the gateway ignores the offer and closes the connection. */
  it.each(["h2c", "websocket", "TLS/1.0, HTTP/2.0"])(
    "with Upgrade: %s gets one answer and is closed",
    async (protocol) => {
      const gateway = await startGateway();
      const offer = (port: number, path: string, options: string): Promise<string> =>
        exchangeRaw(
          port,
          request(path, "first", `Connection: ${options}`, `Upgrade: ${protocol}`).replace("Host: x", LOCAL) +
            request(path, "second").replace("Host: x", LOCAL),
        );
      const adminPort = Number(new URL(gateway.adminUrl).port);
      for (const options of ["Upgrade", "keep-alive, UPGRADE , HTTP2-Settings"]) {
        for (const [port, path] of [
          [gateway.port, "/areas?q=Nacka"],
          [adminPort, "/livez"],
        ] as const) {
          const raw = await offer(port, path, options);
          expect(raw.match(/^HTTP\/1\.1 \d{3}/gm)).toEqual(["HTTP/1.1 200"]);
          expect(raw).toMatch(/^connection: close\r$/im);
        }
      }
      expect(gateway.sandbox.requests()).toHaveLength(1);
    },
  );

  it("with an Upgrade header without Connection: upgrade stays open", async () => {
    const gateway = await startGateway();
    const raw = await exchangeRaw(
      gateway.port,
      request("/areas?q=Nacka", "first", "Upgrade: h2c") +
        request("/areas?q=Nacka", "second", "Connection: close"),
    );
    expect(answersIn(raw)).toEqual(["200 first", "200 second"]);
  });

  it.each([
    ["before it has said anything", ""],
    ["in the middle of a request", "GET /areas?q=Na"],
    ["after what is no request", "nonsense\r\n\r\n"],
    ["with its answer on the way", request("/areas?q=held", "x")],
    ["with a stream on the way", request("/areas?q=held", "x", "Cache-Control: no-store")],
    ["with several requests on the way", request("/areas?q=held", "x") + request("/sold?q=held", "y")],
  ])("that breaks %s does not affect others", async (_name, bytes) => {
    const gateway = await startGateway();
    gateway.sandbox.hold();
    const socket = net.connect(gateway.port, "127.0.0.1");
    socket.on("error", () => undefined);
    await new Promise((resolve) => void socket.once("connect", resolve));
    socket.write(bytes);
    // The gateway reads in order, so it has read these bytes when it answers the next request.
    await gateway.get("/nowhere");
    if (bytes.includes("held")) await gateway.sandbox.waitForRequests(1);
    socket.resetAndDestroy();
    gateway.sandbox.release();
    await stillAnswers(gateway);
  });
});

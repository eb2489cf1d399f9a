/** Slow, silent and too many connections: they are closed in time, and others are served. */
import net from "node:net";

import { describe, expect, it, onTestFinished } from "vitest";

import { exchangeRaw } from "../support/ask.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

const SHORT_TIMEOUTS = `server:
  headersTimeout: 200ms
  requestTimeout: 400ms
  keepAliveTimeout: 150ms
  writeTimeout: 300ms
`;
const GOOD = "GET /areas?q=Nacka HTTP/1.1\r\nHost: x\r\n\r\n";

const LAST = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

type Line = Awaited<ReturnType<typeof dial>>;

/** Opens a connection. `closed` resolves with all that came, when the other side has closed. */
async function dial(port: number) {
  const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  let said = "";
  const { promise: closed, resolve } = Promise.withResolvers<string>();
  socket.on("data", (piece: Buffer) => (said += piece.toString("latin1")));
  socket.on("error", () => undefined);
  socket.on("end", () => resolve(said));
  socket.on("close", () => resolve(said));
  await new Promise<void>((connected) => void socket.once("connect", connected));
  return { socket, said: () => said, closed };
}

/** Open connections that have each had one answer without an upstream call. */
function dialAndAsk(port: number, count: number): Promise<Line[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const line = await dial(port);
      const answered = new Promise((resolve) => void line.socket.once("data", resolve));
      line.socket.write("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n");
      await answered;
      return line;
    }),
  );
}

/** What `closed` came to: statuses, and the codes of problems. */
function answersIn(raw: string): string[] {
  const codes = [...raw.matchAll(/urn:property-gateway:problem:([a-z-]+)/g)].map(([, code]) => code);
  return [...raw.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) =>
    Number(status) < 400 ? `${status}` : `${status} ${codes.shift()}`,
  );
}

async function expectServed(gateway: TestGateway): Promise<void> {
  expect((await gateway.get("/areas?q=Lund")).status).toBe(200);
}

/** Sends some bytes, and more one by one until the other side has closed. @returns all that was received */
async function saySlowly(port: number, begin: string, then: string): Promise<string> {
  const { socket, closed } = await dial(port);
  socket.write(begin);
  let at = 0;
  const timer = setInterval(() => void socket.write(then[at++ % then.length] ?? ""), 10);
  return closed.finally(() => clearInterval(timer));
}

describe("a slow caller", () => {
  it("is disconnected after a timeout", async () => {
    const gateway = await startGateway({ settings: SHORT_TIMEOUTS });
    // From now on a hit, which is sent before any timeout.
    await gateway.get("/areas?q=Nacka");
    const headers = "GET /areas?q=Nacka HTTP/1.1\r\nHost: x\r\n";
    const late = ["408 request-timeout"];
    const admin = gateway.adminPort;
    const content = "Host: localhost\r\nContent-Length: 1000\r\n\r\n";
    const cases: [name: string, begin: string, then: string, answers: string[], port?: number][] = [
      ["says nothing", "", "", late],
      ["dribbles its first line", "GET /areas?q=", "a", late],
      ["dribbles its headers", headers, "A-b: c\r\n", late],
      ["never ends its headers", headers, "", late],
      ["dribbles its second request", `${GOOD}GET /areas?q=`, "a", ["200", ...late]],
      ["dribbles content nobody wants", `${headers}Content-Length: 1000\r\n\r\n`, "a", ["200"]],
      ["dribbles chunks nobody wants", `${headers}Transfer-Encoding: chunked\r\n\r\n`, "1\r\na\r\n", ["200"]],
      ["keeps its connection for nothing", GOOD, "", ["200"]],
      ["says nothing to the admin port", "", "", late, admin],
      ["dribbles headers to it", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n", "A-b: c\r\n", late, admin],
      ["dribbles content to it", `POST /cache/purge HTTP/1.1\r\n${content}`, " ", late, admin],
    ];
    const ends = cases.map(async ([name, begin, then, , port = gateway.port]) => {
      const raw = await saySlowly(port, begin, then);
      if (raw.includes(" 408 "))
        expect(raw).toMatch(
          /"detail":"The headers must arrive within [\d.]+ s, the whole request within [\d.]+ s\."/,
        );
      return [name, answersIn(raw)];
    });
    expect(await Promise.all(ends)).toEqual(cases.map(([name, , , answers]) => [name, answers]));
    await expectServed(gateway);
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });

  it("that reads its answers slowly gets all of them", async () => {
    const gateway = await startGateway({ settings: SHORT_TIMEOUTS.replace("300ms", "1500ms") });
    await gateway.get("/listings?limit=500");
    const line = await dial(gateway.port);
    const startedAt = performance.now();
    line.socket.write("GET /listings?limit=500 HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20));
    line.socket.on("data", () => {
      line.socket.pause();
      setTimeout(() => line.socket.resume(), 15);
    });
    expect(answersIn(await line.closed)).toEqual(Array.from({ length: 20 }, () => "200"));
    // Reading took longer than the timeout, which starts again with each piece.
    expect(performance.now() - startedAt).toBeGreaterThan(1_500);
  });

  it("is not one that waits for the upstream", async () => {
    const gateway = await startGateway({ settings: SHORT_TIMEOUTS });
    gateway.sandbox.hold();
    const raw = exchangeRaw(gateway.port, GOOD + GOOD.replace("Nacka", "Lund"));
    await gateway.sandbox.waitForRequests(1);
    gateway.sandbox.release(1);
    await gateway.sandbox.waitForRequests(2);
    // Others come and go for longer than any of the limits.
    const silent = await dial(gateway.port);
    await silent.closed;
    const second = await dial(gateway.port);
    await second.closed;
    gateway.sandbox.release();
    expect(answersIn(await raw)).toEqual(["200", "200"]);
  });
});

describe("connections", () => {
  it("beyond the limit are refused with a problem, and far beyond it are closed at once", async () => {
    const gateway = await startGateway({ settings: "server: { maxConnections: 10 }" });
    const taken = await dialAndAsk(gateway.port, 10);
    const reply = await gateway.get("/areas?q=Nacka");
    expect(reply.status).toBe(503);
    expect(reply.headers).toMatchObject({ "retry-after": "1", connection: "close" });
    expect(reply.json()).toMatchObject({
      type: "urn:property-gateway:problem:too-many-connections",
      detail: "At most 10 connections may be open at once.",
    });
    expect(gateway.sandbox.requests()).toEqual([]);

    const [first, second] = [await dial(gateway.port), await dial(gateway.port)];
    await dial(gateway.port);
    expect([await first.closed, await second.closed]).toEqual(["", ""]);
    expect(gateway.log.filter((line) => line.includes("All connections are taken"))).toHaveLength(1);

    // Those that were there first are served as ever, and the others as soon as there is room.
    taken[0]?.socket.end(GOOD.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    taken[1]?.socket.write(GOOD);
    await expect.poll(() => answersIn(taken[1]?.said() ?? "")).toEqual(["404 unknown-path", "200"]);
    await expect.poll(async () => (await gateway.get("/areas?q=Lund")).status).toBe(200);
  });

  it("of the admin port have their own limit", async () => {
    const gateway = await startGateway({ settings: "server: { maxConnections: 5 }" });
    await dialAndAsk(gateway.port, 5);
    const livez = LAST.replace("/nowhere", "/livez");
    expect(answersIn(await exchangeRaw(gateway.adminPort, livez))).toEqual(["200"]);
    await dialAndAsk(gateway.adminPort, 5);
    expect((await gateway.admin("/version")).status).toBe(503);
    // Health checks have room of their own.
    for (const path of ["/livez", "/readyz"]) expect((await gateway.admin(path)).status).toBe(200);
  });

  it("with too many pipelined requests are closed", async () => {
    const gateway = await startGateway();
    gateway.sandbox.hold();
    const line = await dial(gateway.port);
    line.socket.write(GOOD.repeat(101));
    expect(await line.closed).toBe("");
    gateway.sandbox.release();
    await expectServed(gateway);
  });
});

describe("silent connections up to the limit", () => {
  it("are closed for new ones, the oldest first, and active ones stay", async () => {
    const settings = "server: { maxConnections: 4, headersTimeout: 1h, requestTimeout: 1h }";
    const gateway = await startGateway({ settings });
    const asked = await dialAndAsk(gateway.port, 2);
    const oldest = await dial(gateway.port);
    const youngest = await dial(gateway.port);
    const ends: string[] = [];
    void oldest.closed.then(() => ends.push("oldest"));
    void youngest.closed.then(() => ends.push("youngest"));
    const endsAfterAnswer = async (): Promise<string[]> => {
      expect(answersIn(await exchangeRaw(gateway.port, LAST))).toEqual(["404 unknown-path"]);
      return ends;
    };
    // A connection that is younger than a tenth of a second keeps its place.
    await expect.poll(endsAfterAnswer, { interval: 10 }).toEqual(["oldest"]);
    expect(await gateway.logged("All connections are taken")).toMatchObject({ level: "warn" });
    for (const { socket } of asked) socket.write(GOOD);
    for (const { said } of asked) await expect.poll(() => answersIn(said()).at(-1)).toBe("200");
  });

  it("do not keep a complete request from being answered, even if they are new", async () => {
    // Under a clock that stands still, every connection is new.
    const gateway = await startGateway({
      clock: createFakeClock(),
      settings: "server: { maxConnections: 10, headersTimeout: 1h, requestTimeout: 1h }",
    });
    const lines = await Promise.all(Array.from({ length: 10 }, () => dial(gateway.port)));
    expect(answersIn(await exchangeRaw(gateway.port, LAST))).toEqual(["404 unknown-path"]);
    // One place in ten is spare, so no new connection had to go.
    expect(lines.filter(({ socket }) => socket.readableEnded)).toEqual([]);
  });

  it.each([
    ["the callers' port", (gateway: TestGateway) => gateway.port],
    ["the admin port", (gateway: TestGateway) => gateway.adminPort],
  ])(
    "do not lock others out of %s, also if each has sent the beginning of a request",
    async (_name, portIn) => {
      const settings = "server: { maxConnections: 20, headersTimeout: 1h, requestTimeout: 1h }";
      const gateway = await startGateway({ settings });
      const flood = await Promise.all(Array.from({ length: 20 }, () => dial(portIn(gateway))));
      for (const { socket } of flood) socket.write("G");
      await expect
        .poll(() => exchangeRaw(portIn(gateway), LAST).then(answersIn), { interval: 10 })
        .toEqual(["404 unknown-path"]);
      for (let round = 0; round < 20; round++)
        expect(answersIn(await exchangeRaw(portIn(gateway), LAST))).toEqual(["404 unknown-path"]);
    },
  );
});

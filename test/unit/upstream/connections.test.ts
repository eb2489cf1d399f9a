import dns from "node:dns";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import net, { type Socket } from "node:net";
import tls from "node:tls";

import { describe, expect, it, onTestFinished } from "vitest";

import { createAgent } from "../../../src/upstream/connections.ts";
import { exchange, UpstreamFault } from "../../../src/upstream/send.ts";
import { createAuthority } from "../../support/certificates.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { serve } from "../../support/serve.ts";
import { fetching, httpUpstream, LIMITS, NEVER_TIMED_OUT, outcomeOf, rawUpstream } from "./support.ts";

/** One exchange with an upstream that does this with the connection. */
async function outcome(onRequest: (socket: Socket) => void) {
  const url = await rawUpstream(onRequest);
  const clock = createFakeClock();
  const result = await outcomeOf(fetching(clock)(url));
  return { outcome: result, pending: clock.pending };
}

const NO_PROXY = { http: null, https: null, except: null };
const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

it("a call whose permit expires before its connection is ready is not sent", async () => {
  const url = await rawUpstream((socket) => socket.end(`${HEAD}Content-Length: 2\r\n\r\n{}`));
  const clock = createFakeClock();
  const call = fetching(clock)(url, clock.monotonic() - 1);
  expect(await outcomeOf(call)).toBe("stale-connection");
});

it("a call whose whole answer is unusable leaves its connection to the next call", async () => {
  const url = await httpUpstream((response, nth) => {
    response.writeHead(200, nth === 1 ? { "content-encoding": "br" } : {}).end("{}");
  });
  const fetch = fetching(createFakeClock(), new http.Agent({ keepAlive: true, maxSockets: 1 }));
  const outcomes = [fetch(url), fetch(url)].map(outcomeOf);
  expect(await Promise.all(outcomes)).toMatchObject(["bad-encoding", { status: 200 }]);
});

it("a call that is given up before its whole answer was read frees its connection", async () => {
  const url = await httpUpstream((response) => void response.end("{}"));
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const timing = { until: NEVER_TIMED_OUT, limits: LIMITS, clock: createFakeClock() };
  const ended = exchange(http.request(url, { agent }), timing, async (answer) => {
    await expect.poll(() => answer.complete).toBe(true);
    throw new UpstreamFault("bad-encoding");
  });
  await expect(ended).rejects.toThrow(UpstreamFault);
  expect(await fetching(createFakeClock(), agent)(url)).toMatchObject({ status: 200 });
});

it.each<[string, (socket: Socket) => void, string]>([
  ["resets at once", (socket) => socket.resetAndDestroy(), "reset"],
  ["closes without a word", (socket) => socket.end(), "reset"],
  ["gives endless headers", (socket) => socket.end(`${HEAD}X: ${"x".repeat(70_000)}\r\n\r\n`), "malformed"],
  [
    "sends less than its Content-Length",
    (socket) => socket.end(`${HEAD}Content-Length: 3\r\n\r\n{}`),
    "cut-body",
  ],
  [
    "sends no last chunk",
    (socket) => socket.end(`${HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n`),
    "cut-body",
  ],
])("an upstream that breaks off: %s", async (_name, onRequest, kind) => {
  expect(await outcome(onRequest)).toEqual({ outcome: kind, pending: 0 });
});

it.each(["EMFILE", "ENFILE"])(
  "a process without a file descriptor (%s) blames itself, not the upstream",
  async (code) => {
    const agent = new http.Agent();
    agent.createConnection = () => {
      const socket = new net.Socket();
      process.nextTick(() => socket.destroy(Object.assign(new Error(code), { code })));
      return socket;
    };
    expect(await outcomeOf(fetching(createFakeClock(), agent)("http://127.0.0.1:9"))).toBe("no-descriptor");
  },
);

it("over TLS, a call finds the address that answers, and a dropped call does not disturb the next one", async () => {
  const authority = createAuthority();
  let requests = 0;
  const answer: http.RequestListener = ({ socket }, response) =>
    void (requests++ === 0 ? socket.destroy() : response.end("{}"));
  const server = https.createServer(authority.issue(["api.test"]), answer);
  const addresses = ["127.0.0.2", "127.0.0.1"].map((address) => ({ address, family: 4 }));
  const { lookup } = dns;
  onTestFinished(() => void Object.assign(dns, { lookup }));
  const find = (_name: string, _options: object, done: (...found: unknown[]) => void) =>
    done(null, addresses);
  Object.assign(dns, { lookup: find });
  const baseUrl = `https://api.test:${await serve(server)}`;
  const fetch = fetching(createFakeClock(), createAgent(baseUrl, { ca: authority.cert, proxy: NO_PROXY }));
  expect(await outcomeOf(fetch(baseUrl))).toBe("reset");
  expect(await outcomeOf(fetch(baseUrl))).toMatchObject({ status: 200 });
});

it.runIf(process.platform === "linux")("over TLS, the kernel keeps an idle connection alive", async () => {
  const authority = createAuthority();
  const server = https.createServer(authority.issue(), (_request, response) => void response.end("{}"));
  const port = await serve(server);
  const agent = createAgent("https:", { ca: authority.cert, proxy: NO_PROXY });
  await fetching(createFakeClock(), agent)(`https://127.0.0.1:${port}`);
  // Linux' table of connections: the remote port, ESTABLISHED, nothing unsent or unread, and the timer of keep-alive.
  const row = new RegExp(`:${port.toString(16).padStart(4, "0")} 01 0{8}:0{8} 02:`, "i");
  await expect.poll(() => readFileSync("/proc/net/tcp", "latin1")).toMatch(row);
});

it("an upstream that sends too much is cut off, with and without a Content-Length", async () => {
  for (const framing of ["Content-Length: 99999999", "Connection: close"]) {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const { outcome: result, pending } = await outcome((socket) => {
      socket.write(`${HEAD}${framing}\r\n\r\n`);
      const pour = (): boolean => socket.write("x".repeat(16_384));
      socket.on("drain", pour);
      socket.once("close", () => resolve());
      while (pour());
    });
    expect([framing, result, pending]).toEqual([framing, "too-large", 0]);
    await closed;
  }
});

describe("an upstream that is slow", () => {
  /** Lets time pass up to a limit, then over it. */
  async function endsAt(clock: FakeClock, limitMs: number, result: Promise<unknown>): Promise<void> {
    let ended = false;
    void result.then(() => (ended = true));
    await clock.armed(limitMs);
    await clock.advance(limitMs - 1);
    expect(ended).toBe(false);
    await clock.advance(1);
  }

  it("in the TLS handshake ends at the connect timeout", async () => {
    // A server that takes the connection and answers nothing to TLS.
    const connected = Promise.withResolvers<Socket>();
    const url = await rawUpstream((socket) => connected.resolve(socket));
    const clock = createFakeClock();
    const fetch = fetching(clock, new https.Agent({ keepAlive: true }));
    const result = outcomeOf(fetch(url.replace("http:", "https:")));
    await endsAt(clock, LIMITS.connectTimeoutMs, result);
    expect(await result).toBe("connect-timeout");
    expect(clock.pending).toBe(0);
  });

  it("to accept a connection ends at the connect timeout", async () => {
    const url = await rawUpstream(() => undefined);
    const clock = createFakeClock();
    const fetch = fetching(clock, new http.Agent({ keepAlive: true, maxSockets: 1 }));
    const first = outcomeOf(fetch(url));
    await clock.armed(LIMITS.headerTimeoutMs);
    const second = outcomeOf(fetch(url));
    await clock.advance(LIMITS.connectTimeoutMs);
    expect(await second).toBe("connect-timeout");
    await clock.advance(LIMITS.headerTimeoutMs);
    expect(await first).toBe("header-timeout");
  });

  // A connection that is only closed would still deliver what the network has held up.
  it.each(["http", "https"])(
    "to answer ends at the header timeout, and its connection is reset: %s",
    async (scheme) => {
      const authority = createAuthority();
      const { cert, key } = authority.issue();
      const onSocket = (socket: Socket): void => void socket.on("error", () => undefined).resume();
      const port = await serve(
        scheme === "http" ? net.createServer(onSocket) : tls.createServer({ cert, key }, onSocket),
      );
      // A TLS server reports a closed connection as a reset, too. So the end is seen below TLS.
      const ended = Promise.withResolvers<Error | undefined>();
      const front = net.createServer((socket) => {
        let error: Error | undefined;
        socket.on("error", (one) => (error = one)).once("close", () => ended.resolve(error));
        socket.pipe(net.connect(port, "127.0.0.1").on("error", () => undefined)).pipe(socket);
      });
      const baseUrl = `${scheme}://127.0.0.1:${await serve(front)}`;
      const agent = createAgent(baseUrl, { ca: authority.cert, proxy: NO_PROXY });
      const clock = createFakeClock();
      const result = outcomeOf(fetching(clock, agent)(baseUrl));
      await endsAt(clock, LIMITS.headerTimeoutMs, result);
      expect(await result).toBe("header-timeout");
      expect(clock.pending).toBe(0);
      expect(await ended.promise).toMatchObject({ code: "ECONNRESET" });
    },
  );
});

/**
 * Shared by the tests of src/upstream/: limits, an identity, a watcher, and small upstreams.
 */
import http from "node:http";
import type https from "node:https";
import net from "node:net";
import type { AddressInfo } from "node:net";

import { onTestFinished } from "vitest";

import type { Observer, UpstreamCallRecord } from "../../../src/telemetry/events.ts";
import type { Throttled } from "../../../src/ratelimit/throttled.ts";
import type { Clock } from "../../../src/process/clock.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { systemRandom } from "../../../src/process/random.ts";
import { createAttempt, type Attempt, type UpstreamQuestion } from "../../../src/upstream/attempt.ts";
import type { Credentials } from "../../../src/upstream/sign.ts";
import { createFetch, UpstreamFault, type Fetch, type RawAnswer } from "../../../src/upstream/fetch.ts";
import { createOrigin } from "../../../src/upstream/origin.ts";
import { createSigner } from "../../../src/upstream/sign.ts";
import { waitingOf } from "../../support/waiting.ts";
import { SILENT } from "../../support/silent-observer.ts";

export const LIMITS = {
  connectTimeoutMs: 1_001,
  headerTimeoutMs: 2_002,
  bodyTimeoutMs: 3_003,
  totalTimeoutMs: 10_004,
  maxBodyBytes: 64 * 1024,
  connections: 4,
} as const;

const IDENTITY = {
  service: "propertyservice",
  userAgent: "example-gateway/1.0 (ops@example.com)",
  referrer: "https://www.example.com/",
} as const;

const CREDENTIALS = { callerId: "acme ab & söner", privateKey: "k3y-nobody-may-see" } as const;

export const LISTINGS: UpstreamQuestion = {
  resource: "listings",
  query: "listings?areaId=76&offset=0",
  target: "/listings?areaId=76&offset=0",
  format: "json",
  app: "other",
  cause: "miss",
  cached: undefined,
  departing: () => undefined,
};

export const PAGE = JSON.stringify({
  totalCount: 2,
  count: 2,
  listings: [{ serviceId: 1 }, { serviceId: 2 }],
  limit: 35,
  offset: 0,
});

/** A waiter without a deadline. */
export const NO_DEADLINE = waitingOf();

/** Runs every job at once. */
const unthrottled: Throttled = (_order, job) => job(() => undefined, {});

export interface Watcher extends Observer {
  readonly calls: UpstreamCallRecord[];
  readonly errors: { readonly message: string; readonly fields: Readonly<Record<string, unknown>> }[];
}

export function createWatcher(): Watcher {
  const calls: UpstreamCallRecord[] = [];
  const errors: Watcher["errors"] = [];
  return {
    calls,
    errors,
    ...SILENT,
    upstreamCall: (call) => void calls.push(call),
    error: (message, fields) => void errors.push({ message, fields }),
  };
}

export interface Attempting {
  readonly attempt: Attempt;
  readonly watcher: Watcher;
}

export interface AttemptingOptions {
  readonly baseUrl: string;
  readonly clock?: Clock;
  readonly throttled?: Throttled;
  readonly retryDelayMs?: number;
  readonly credentials?: Credentials;
}

const NO_PROXY = { http: null, https: null, except: null };

/** The attempt stage as it is wired in the application, in front of one address. */
export function attempting(options: AttemptingOptions): Attempting {
  const { baseUrl, clock = systemClock, throttled = unthrottled, retryDelayMs = 1 } = options;
  const sign = createSigner({
    callerId: CREDENTIALS.callerId,
    privateKey: () => CREDENTIALS.privateKey,
    now: clock.now,
    unique16: systemRandom.unique16,
  });
  const origin = createOrigin({ ...LIMITS, clock, baseUrl, ca: null, proxy: NO_PROXY, throttled, sign });
  onTestFinished(() => origin.agent.destroy());
  const watcher = createWatcher();
  const attempt = createAttempt({
    originOf: () => origin,
    maxCoolOffMs: () => 3_600_000,
    credentials: options.credentials ?? {
      currentNumber: () => 1,
      refused: () => false,
      accepted: () => undefined,
      checkAgain: () => undefined,
    },
    identity: IDENTITY,
    confidential: () => [new URL(baseUrl).hostname, CREDENTIALS.callerId, CREDENTIALS.privateKey],
    totalTimeoutMs: LIMITS.totalTimeoutMs,
    retryDelayMs,
    clock,
    random: { ...systemRandom, fraction: () => 0.5 },
    observer: watcher,
  });
  return { attempt, watcher };
}

/** One exchange at a time, with a connection pool that ends with the test. */
export function fetching(
  clock: Clock,
  agent: http.Agent | https.Agent = new http.Agent({ keepAlive: true }),
): Fetch {
  onTestFinished(() => agent.destroy());
  return createFetch(agent, { ...LIMITS, clock });
}

export const NEVER_TIMED_OUT = new AbortController().signal;

/** The result of an exchange: a complete answer, or the name of its fault. */
export async function outcomeOf(exchange: Promise<RawAnswer>): Promise<RawAnswer | string> {
  try {
    return await exchange;
  } catch (error) {
    if (error instanceof UpstreamFault) return error.kind;
    throw error;
  }
}

async function listening(server: net.Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${portOf(server.address())}`;
}

export function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === "string") throw new TypeError("the server has no port");
  return address.port;
}

/** An HTTP server that ends with the test. */
export async function httpUpstream(listener: http.RequestListener): Promise<string> {
  const server = http.createServer(listener);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return await listening(server);
}

/** A server of bytes that ends with the test; it is called for each request's head, with its number. */
export async function rawUpstream(
  onRequest: (socket: net.Socket, head: string, number: number) => void,
): Promise<string> {
  const sockets = new Set<net.Socket>();
  let requests = 0;
  const server = net.createServer((socket) => {
    sockets.add(socket);
    // What the other side does to the connection is what the test is about.
    socket.on("error", () => undefined);
    let received = "";
    socket.on("data", (bytes) => {
      received += bytes.toString("latin1");
      const end = received.indexOf("\r\n\r\n");
      if (end === -1) return;
      const head = received.slice(0, end);
      received = "";
      onRequest(socket, head, (requests += 1));
    });
  });
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return await listening(server);
}

/** An address at which nothing listens. */
export async function closedAddress(): Promise<string> {
  const server = net.createServer();
  const url = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  return url;
}

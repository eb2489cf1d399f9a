/**
 * Shared by the tests of src/upstream/: limits, an identity, a watcher, and small upstreams.
 */
import http from "node:http";
import type https from "node:https";
import net from "node:net";

import { onTestFinished } from "vitest";

import type { Config } from "../../../src/config/config.ts";
import { createPrivateKeys } from "../../../src/config/secrets/key-rotation.ts";
import { Secret } from "../../../src/config/secrets/secret.ts";
import type { Query } from "../../../src/query/query.ts";
import type { Question } from "../../../src/query/request.ts";
import type { Observer, UpstreamCallRecord } from "../../../src/telemetry/events.ts";
import type { Throttled, Waiting } from "../../../src/ratelimit/call-facts.ts";
import type { Clock } from "../../../src/process/clock.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { systemRandom } from "../../../src/process/random.ts";
import { createAgent } from "../../../src/upstream/connections.ts";
import { createAsk } from "../../../src/upstream/retry.ts";
import { fetchAnswer, UpstreamFault, type RawAnswer } from "../../../src/upstream/send.ts";
import type { Validators } from "../../../src/upstream/caching-headers.ts";
import { createSigner, unsigned } from "../../../src/upstream/sign.ts";
import { questionWith, requestWith, SEARCH } from "../../support/question.ts";
import { waitingOf } from "../../support/waiting.ts";
import { serve } from "../../support/serve.ts";
import { SILENT } from "../../support/silent-observer.ts";
import { load, MINIMAL } from "../config/config-fixture.ts";

export const LIMITS = {
  connectTimeoutMs: 1_001,
  headerTimeoutMs: 2_002,
  bodyTimeoutMs: 3_003,
  totalTimeoutMs: 10_004,
  maxBodyBytes: 64 * 1024,
} as const;

export interface AskedOf {
  readonly question: Question;
  readonly cached?: Validators;
}

/** A question for this query. */
export function askedOf(query: Query, format: "json" | "jpeg" = "json"): AskedOf {
  return { question: { ...questionWith(requestWith(0, { format })), query } };
}

export const LISTINGS = askedOf({ ...SEARCH, filters: [["areaId", "76"]] });

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

function createWatcher() {
  const calls: UpstreamCallRecord[] = [];
  const errors: { readonly message: string; readonly fields: Readonly<Record<string, unknown>> }[] = [];
  const observer: Observer = {
    ...SILENT,
    upstreamCall: (call) => void calls.push(call),
    error: (message, fields) => void errors.push({ message, fields }),
  };
  return { calls, errors, observer };
}

interface AttemptingOptions {
  readonly baseUrl: string;
  readonly clock?: Clock;
  readonly throttled?: Throttled;
  readonly retryDelayMs?: number;
}

/** The settings of an upstream at this address. */
function settingsOf(baseUrl: string, retryDelayMs = 1): Config["upstream"] {
  const env = { ...MINIMAL, UPSTREAM_URL: baseUrl, UPSTREAM_CALLER_ID: "acme ab & söner" };
  return { ...load(env).upstream, ...LIMITS, retryDelayMs };
}

/** The attempt stage as it is wired in the application, in front of one address. */
export function attempting(options: AttemptingOptions) {
  const { baseUrl, clock = systemClock, throttled = unthrottled } = options;
  const upstream = settingsOf(baseUrl, options.retryDelayMs);
  const keys = createPrivateKeys(new Secret("k3y-nobody-may-see"));
  const sign = createSigner(upstream.callerId, keys.current, clock.now, systemRandom.unique16);
  const agent = createAgent(baseUrl, upstream);
  onTestFinished(() => agent.destroy());
  const watcher = createWatcher();
  const attempt = createAsk({
    originOf: (resource) => ({
      baseUrl,
      agent,
      throttled,
      sign: resource === "images" ? unsigned : sign,
    }),
    upstream,
    keys,
    checkKeyFile: () => undefined,
    limits: () => ({ maxCoolOffMs: 3_600_000, maxAgeEverMs: 3_600_000 }),
    clock,
    random: { ...systemRandom, fraction: () => 0.5 },
    observer: watcher.observer,
  });
  return {
    attempt: ({ question, cached }: AskedOf, waiting: Waiting) =>
      attempt({ question, waiting, cause: "miss", cached: () => cached, departing: () => undefined }),
    watcher,
  };
}

/** Fetches from an address, with a connection pool that ends with the test. */
export function fetching(
  clock: Clock,
  agent: http.Agent | https.Agent = new http.Agent({ keepAlive: true }),
) {
  onTestFinished(() => agent.destroy());
  return (baseUrl: string, sendBy?: number): Promise<RawAnswer> => {
    const timing = { until: NEVER_TIMED_OUT, sendBy, limits: LIMITS, clock };
    return fetchAnswer(`${baseUrl}/listings?x=1`, { accept: "application/json" }, agent, timing);
  };
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

/** The address of an HTTP server that ends with the test. `nth` counts its requests from 1. */
export async function httpUpstream(
  answer: (response: http.ServerResponse, nth: number) => void,
): Promise<string> {
  let requests = 0;
  const server = http.createServer((_request, response) => answer(response, ++requests));
  return `http://127.0.0.1:${await serve(server)}`;
}

/** A server of bytes that ends with the test; it is called for each request's head, with its number. */
export async function rawUpstream(
  onRequest: (socket: net.Socket, head: string, number: number) => void,
): Promise<string> {
  let requests = 0;
  const server = net.createServer((socket) => {
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
  return `http://127.0.0.1:${await serve(server)}`;
}

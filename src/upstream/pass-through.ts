/**
 * Streams what is not kept: paths the interface may add later, and requests with `no-store`.
 *
 * The request is signed into its path before the proxy sees it, because a proxy's own hooks come too
 * late or not at all; its headers are replaced as a whole, because the proxy would pass the caller's
 * on; none of the proxy's own plugins is loaded, because they print URLs. One attempt is made: a
 * stream cannot be taken back.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";

import { createProxyMiddleware, type RequestHandler } from "http-proxy-middleware";

import { Problem } from "../errors.ts";
import type { Observer, Order, Question, SendEnd, StreamSink, UpstreamFaultKind } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import { outgoingHeaders, type Identity } from "./attempt.ts";
import { areRenewed, type Credentials } from "./credentials-check.ts";
import { faultOf, UpstreamFault } from "./fetch.ts";
import type { Origin } from "./origin.ts";
import { slowDownAfter, slowDownIn } from "./slow-down.ts";
import { judgeAnswer, judgeFault } from "./verdict.ts";

export interface PassThroughOptions {
  readonly originOf: (resource: Resource) => Origin;
  /** The path and query to ask for, unsigned. */
  readonly targetOf: (query: Query | StreamedQuery) => string;
  readonly credentials: Credentials;
  readonly identity: Identity;
  readonly hosts: readonly string[];
  readonly maxCoolOffMs: () => number;
  readonly connectTimeoutMs: number;
  readonly headerTimeoutMs: number;
  readonly totalTimeoutMs: number;
  readonly maxBodyBytes: number;
  readonly clock: Clock;
  readonly observer: Observer;
}

/**
 * Streams the upstream's answer to a question. Rejects with a `Problem` where no answer came, and where
 * one broke off after the head was sent.
 */
export type PassThrough = (
  question: Question<Query | StreamedQuery>,
  message: IncomingMessage,
  sink: StreamSink,
) => Promise<void>;

export function createPassThrough(options: PassThroughOptions): PassThrough {
  const send = createSend(options);

  return async function passThrough(question, message, sink) {
    const { request, query } = question;
    const origin = options.originOf(query.resource);
    const { app, gone, deadlineAt, priority } = request;
    const order: Order = {
      app,
      cause: "bypass",
      resource: query.resource,
      text: question.text,
      waiting: {
        abandoned: gone,
        deadlineAt: () => deadlineAt,
        priority: () => priority,
        // There is but one who waits: whose deadline is the queue's own.
        apps: () => [app],
        onChange: () => undefined,
        inQueue: () => undefined,
      },
    };
    return await origin.throttled(order, async (ended) => {
      const record = createRecord(question, ended, options);
      const signedWith = options.credentials.version();
      try {
        const answer = await send(question, origin, message, sink.response);
        const headAt = options.clock.steady();
        const status = answer.statusCode ?? 0;
        if (status !== 200) {
          const problem = await problemIn(answer, status, question, signedWith, options);
          const slowDown = slowDownIn({ status, headers: answer.headers }, options.clock.now());
          record(status, 0, { note: problem.message, headAt, ...(slowDown && { slowDown }) });
          throw problem;
        }
        sink.start(answer.headers);
        record(status, await pour(answer, sink, request.method === "HEAD", options), { headAt });
      } catch (error) {
        if (error instanceof Problem && error.code === "deadline-exceeded")
          record("header-timeout", 0, { note: error.message });
        if (!(error instanceof UpstreamFault)) throw error;
        const slowDown = slowDownAfter(error.kind);
        record(error.kind, 0, { note: error.message, ...(slowDown && { slowDown }) });
        throw judgeFault(error).problem;
      }
    });
  };
}

interface StreamEnd extends Pick<SendEnd, "slowDown"> {
  /** When the head was here, by the steady clock. */
  readonly headAt?: number;
  readonly note?: string;
}

function createRecord(
  { query, text }: Question<Query | StreamedQuery>,
  ended: (end: SendEnd) => void,
  { clock, observer }: PassThroughOptions,
): (status: number | UpstreamFaultKind, bytes: number, end: StreamEnd) => void {
  const startedAt = clock.steady();
  return (status, bytes, { headAt = clock.steady(), note, slowDown }) => {
    const durationMs = clock.steady() - startedAt;
    ended({ status, durationMs, arrivedAfterMs: headAt - startedAt, ...(slowDown && { slowDown }) });
    const call = { resource: query.resource, text, cause: "bypass", status, durationMs, bytes } as const;
    observer.upstreamCall(note === undefined ? call : { ...call, note });
  };
}

/** The proxy's events of one request, which it knows by the caller's message only. */
interface Exchange {
  readonly departed: (request: ClientRequest) => void;
  readonly answered: (response: IncomingMessage) => void;
  readonly failed: (error: Error) => void;
}

const MOST_LISTENERS = 30;

type Send = (
  question: Question<Query | StreamedQuery>,
  origin: Origin,
  message: IncomingMessage,
  response: ServerResponse,
) => Promise<IncomingMessage>;

/** @returns a function that sends a request through the proxy and waits for the head of the answer. */
function createSend(options: PassThroughOptions): Send {
  const exchanges = new WeakMap<IncomingMessage, Exchange>();
  const proxies = new Map<Origin, RequestHandler>();

  return async function send({ request, query }, origin, message, response) {
    // The proxy, the stream and Express each listen for its end, which is no leak.
    response.setMaxListeners(MOST_LISTENERS);
    const proxy = proxies.get(origin) ?? createProxy(origin, exchanges);
    proxies.set(origin, proxy);

    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    let outgoing: ClientRequest | undefined;
    exchanges.set(message, {
      departed: (sent) => (outgoing = sent),
      answered: resolve,
      failed: (error) => reject(faultOf(error, outgoing?.reusedSocket ?? false)),
    });
    const limitMs = options.connectTimeoutMs + options.headerTimeoutMs;
    const leftMs = request.deadlineAt - options.clock.now();
    const cancel = options.clock.after(Math.min(limitMs, leftMs), () => {
      // Who runs out of time: the caller, or the upstream.
      reject(
        leftMs < limitMs
          ? new Problem("deadline-exceeded", { internal: "the upstream had not answered yet" })
          : new UpstreamFault("header-timeout", "header-timeout"),
      );
      outgoing?.destroy();
    });
    message.url = origin.sign(options.targetOf(query));
    message.headers = outgoingHeaders(request.format, options.identity);
    // HEAD is answered from a GET: the interface documents no other method (section 4).
    message.method = "GET";
    try {
      void proxy(message, response, (error) => {
        reject(faultOf(error instanceof Error ? error : new Error("the proxy gave up"), false));
      });
      return await promise;
    } finally {
      // Nothing that looks at the message later may find a signature.
      message.url = "/";
      message.method = request.method;
      cancel();
    }
  };
}

function createProxy(origin: Origin, exchanges: WeakMap<IncomingMessage, Exchange>): RequestHandler {
  return createProxyMiddleware({
    target: origin.baseUrl,
    agent: origin.agent,
    changeOrigin: true,
    secure: true,
    followRedirects: false,
    selfHandleResponse: true,
    // A GET has no content; what a caller sends as one must not reach the upstream unframed.
    router: (_message, _response, options) => {
      if (options) options.buffer = Readable.from([]);
      return origin.baseUrl;
    },
    ejectPlugins: true,
    plugins: [
      (proxy) => {
        proxy.on("proxyReq", (request, message) => exchanges.get(message)?.departed(request));
        proxy.on("proxyRes", (answer, message) => exchanges.get(message)?.answered(answer));
        proxy.on("error", (error, message) => message && exchanges.get(message)?.failed(error));
      },
    ],
  });
}

/** An answer that is not a 200, read whole and judged as for the cache. */
async function problemIn(
  answer: IncomingMessage,
  status: number,
  { query }: Question<Query | StreamedQuery>,
  signedWith: number,
  options: PassThroughOptions,
): Promise<Problem> {
  const { hosts, maxCoolOffMs, clock } = options;
  areRenewed({ status, date: answer.headers.date, signedWith }, options, clock.now());
  const body = await firstBytes(answer);
  const single = query.kind === "record";
  const asked = { resource: query.resource, single, hosts, maxCoolOffMs: maxCoolOffMs(), now: clock.now() };
  const verdict = judgeAnswer({ status, headers: answer.headers, body }, asked);
  return "problem" in verdict ? verdict.problem : new Problem("upstream-invalid-response");
}

const ENOUGH_TO_EXPLAIN_BYTES = 16 * 1024;

async function firstBytes(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of answer) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > ENOUGH_TO_EXPLAIN_BYTES) break;
    }
  } catch {
    // Cut off: the status says enough.
  }
  return Buffer.concat(chunks).subarray(0, ENOUGH_TO_EXPLAIN_BYTES);
}

/** Sends the body on, within the limits of size and time. A breach breaks the response off. */
async function pour(
  answer: IncomingMessage,
  { response, passed }: StreamSink,
  headOnly: boolean,
  { maxBodyBytes, totalTimeoutMs, clock }: PassThroughOptions,
): Promise<number> {
  if (headOnly) {
    answer.resume();
    response.end();
    return 0;
  }
  let bytes = 0;
  const limit = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      passed(chunk.length);
      if (bytes > maxBodyBytes) done(new UpstreamFault("too-large", "too-large"));
      else done(null, chunk);
    },
  });
  const cancel = clock.after(totalTimeoutMs, () =>
    limit.destroy(new UpstreamFault("total-timeout", "total-timeout")),
  );
  try {
    await pipeline(answer, limit, response);
  } catch (error) {
    throw error instanceof UpstreamFault ? error : new UpstreamFault("cut-body", "cut-body");
  } finally {
    cancel();
  }
  return bytes;
}

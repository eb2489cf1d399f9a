/**
 * Passes on what is not kept: paths the interface may add later, and requests with `no-store`.
 *
 * The proxy sends the request; the body of the answer is collected here, up to `upstream.maxBody`, and judged
 * like an answer for the cache. So a caller gets a whole answer or a problem, and a caller that reads slowly
 * keeps no place at the upstream.
 *
 * The request is signed into its path before the proxy sees it, because a proxy's own hooks come too
 * late or not at all; its headers are replaced as a whole, because the proxy would pass the caller's
 * on; none of the proxy's own plugins is loaded, because they print URLs. One attempt is made.
 */
import { type ClientRequest, type IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";

import { createProxyMiddleware, type RequestHandler } from "http-proxy-middleware";

import { Problem } from "../errors.ts";
import type { Observer, Order, Question, SendEnd, StreamSink, UpstreamFaultKind } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import { outgoingHeaders, validatorsIn, type Identity } from "./attempt.ts";
import { areRenewed, type Credentials } from "./credentials-check.ts";
import { type Confidential, withSignature } from "./explanation.ts";
import { collect, faultOf, UpstreamFault, wholeAnswer, type RawAnswer } from "./fetch.ts";
import type { Origin } from "./origin.ts";
import { slowDownAfter, slowDownIn } from "./slow-down.ts";
import { judgeAnswer, judgeFault, type Verdict } from "./verdict.ts";

export interface PassThroughOptions {
  readonly originOf: (resource: Resource) => Origin;
  /** The path and query to ask for, unsigned. */
  readonly targetOf: (query: Query | StreamedQuery) => string;
  readonly credentials: Credentials;
  readonly identity: Identity;
  /** Kept out of what callers see. */
  readonly confidential: Confidential;
  readonly maxCoolOffMs: () => number;
  readonly connectTimeoutMs: number;
  readonly headerTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly totalTimeoutMs: number;
  readonly maxBodyBytes: number;
  readonly clock: Clock;
  readonly observer: Observer;
}

/**
 * Gives a caller the upstream's answer to a question. Rejects with a `Problem` where there is no usable answer;
 * nothing has been sent to the caller by then.
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
    // The place at the upstream is free as soon as this is here, however slowly the caller reads it.
    const passed = await origin.throttled(order, async (ended) => {
      const record = createRecord(question, ended, options);
      const signedWith = options.credentials.version();
      try {
        const sent = await send(question, origin, message);
        const { status, headAt, headers, body } = sent.answer;
        const verdict = judged(sent, question, signedWith, options);
        if (verdict.kind === "answer") {
          record(status, body.length, { headAt });
          return { headers: passedHeaders(headers, verdict, options.clock.now()), body: verdict.body };
        }
        const problem = "problem" in verdict ? verdict.problem : new Problem("upstream-invalid-response");
        const slowDown = slowDownIn(sent.answer, options.clock.now());
        record(status, body.length, { note: problem.message, headAt, ...(slowDown && { slowDown }) });
        throw problem;
      } catch (error) {
        if (error instanceof Problem && error.code === "deadline-exceeded")
          record("header-timeout", 0, { note: error.message });
        if (!(error instanceof UpstreamFault)) throw error;
        const slowDown = slowDownAfter(error.kind);
        record(error.kind, 0, { note: error.message, ...(slowDown && { slowDown }) });
        throw judgeFault(error).problem;
      }
    });
    sink.start(passed.headers);
    // Node leaves the body out of a response to HEAD; its length stays.
    if (request.method !== "HEAD") sink.passed(passed.body.length);
    sink.response.end(passed.body);
  };
}

/** The upstream's headers that are about the content, for the body as it is sent on. */
function passedHeaders(
  headers: RawAnswer["headers"],
  { contentType, body }: Extract<Verdict, { kind: "answer" }>,
  now: number,
): Record<string, string> {
  const { etag, lastModified } = validatorsIn(headers, now);
  // A strong validator differs between codings (RFC 9110, section 8.8.3.3), and the body is sent without one.
  const isAsSent = (headers["content-encoding"] ?? "identity") === "identity";
  return {
    "content-type": contentType,
    "content-length": String(body.length),
    ...(etag !== undefined && isAsSent && { etag }),
    ...(lastModified !== undefined && { "last-modified": lastModified }),
  };
}

function judged(
  { answer, url }: Sent,
  { query }: Question<Query | StreamedQuery>,
  signedWith: number,
  options: PassThroughOptions,
): Verdict {
  const now = options.clock.now();
  areRenewed({ status: answer.status, date: answer.headers.date, signedWith }, options, now);
  return judgeAnswer(answer, {
    resource: query.resource,
    serviceId: query.kind === "record" ? query.serviceId : undefined,
    confidential: withSignature(options.confidential, url),
    maxCoolOffMs: options.maxCoolOffMs(),
    now,
  });
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

/** A whole answer, and the signed path and query that were asked for. */
interface Sent {
  readonly answer: RawAnswer;
  readonly url: string;
}

type Send = (
  question: Question<Query | StreamedQuery>,
  origin: Origin,
  message: IncomingMessage,
) => Promise<Sent>;

/** @returns a function that sends a request through the proxy and collects the answer */
function createSend(options: PassThroughOptions): Send {
  const exchanges = new WeakMap<IncomingMessage, Exchange>();
  const proxies = new Map<Origin, RequestHandler>();

  return async function send({ request, query }, origin, message) {
    const proxy = proxies.get(origin) ?? createProxy(origin, exchanges);
    proxies.set(origin, proxy);

    const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>();
    const limits = createLimits(options, request, reject);
    exchanges.set(message, {
      departed: limits.departed,
      answered: (response) => {
        const headAt = options.clock.steady();
        limits.heard();
        collect(response, options.maxBodyBytes, limits.heard)
          .then((received) => wholeAnswer(response, received, headAt, options.maxBodyBytes))
          .then(resolve, limits.fail);
      },
      failed: limits.failed,
    });
    const url = origin.sign(options.targetOf(query));
    message.url = url;
    message.headers = { ...outgoingHeaders(request.format, options.identity), "accept-encoding": "identity" };
    // HEAD is answered from a GET: the interface documents no other method (section 4).
    message.method = "GET";
    try {
      // The proxy would break off the caller's own response with the upstream's.
      void proxy(message, new ServerResponse(message), (error) => {
        limits.failed(error instanceof Error ? error : new Error("the proxy gave up"));
      });
      return { answer: await promise, url };
    } finally {
      // Nothing that looks at the message later may find a signature.
      message.url = "/";
      message.method = request.method;
      limits.lift();
    }
  };
}

interface Limits {
  readonly departed: (sent: ClientRequest) => void;
  /** A piece of the answer is here: the limit on the next one begins. */
  readonly heard: () => void;
  /** Ends the exchange. */
  readonly fail: (error: Error) => void;
  /** The connection failed. */
  readonly failed: (error: Error) => void;
  readonly lift: () => void;
}

/** The time limits of an exchange, the caller's deadline and its departure: each ends it. */
function createLimits(
  { clock, connectTimeoutMs, headerTimeoutMs, bodyTimeoutMs, totalTimeoutMs }: PassThroughOptions,
  { deadlineAt, gone }: Question["request"],
  reject: (error: Error) => void,
): Limits {
  let outgoing: ClientRequest | undefined;
  let isAnswered = false;
  let isOver = false;
  const fail = (error: Error): void => {
    isOver = true;
    reject(error);
    outgoing?.destroy();
  };
  const within = (ms: number, kind: UpstreamFaultKind): (() => void) =>
    clock.after(ms, () => fail(new UpstreamFault(kind, kind)));
  const hungUp = (): void => fail(new UpstreamFault("cut-body", "the caller hung up"));

  let cancelNext = within(connectTimeoutMs + headerTimeoutMs, "header-timeout");
  const cancelTotal = within(totalTimeoutMs, "total-timeout");
  const cancelDeadline = clock.after(deadlineAt - clock.now(), () =>
    fail(new Problem("deadline-exceeded", { internal: "the upstream had not answered yet" })),
  );
  gone.addEventListener("abort", hungUp, { once: true });
  if (gone.aborted) hungUp();

  return {
    departed(sent) {
      outgoing = sent;
      if (isOver) sent.destroy();
    },
    heard() {
      isAnswered = true;
      cancelNext();
      if (!isOver) cancelNext = within(bodyTimeoutMs, "body-timeout");
    },
    fail,
    failed(error) {
      const cutOff = isAnswered ? new UpstreamFault("cut-body", "cut-body") : undefined;
      fail(cutOff ?? faultOf(error, outgoing?.reusedSocket ?? false));
    },
    lift() {
      isOver = true;
      for (const cancel of [cancelNext, cancelTotal, cancelDeadline]) cancel();
      gone.removeEventListener("abort", hungUp);
    },
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

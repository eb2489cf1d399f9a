/**
 * Passes through requests that are not cached: those with `no-store`, and those for the paths in `upstream.passThrough`.
 *
 * http-proxy-middleware sends the request. This module collects the body of the answer, up to `upstream.maxBody`, and judges
 * it like an answer for the cache. So the caller gets a complete answer or a problem, and a slow reader does not keep an
 * upstream connection busy. There is no retry.
 *
 * How this module uses the proxy:
 * - The signature is put into the path before the proxy sees the request. The proxy's own hooks run too late or never.
 * - All headers are replaced, because the proxy would forward the caller's headers.
 * - None of the proxy's own plugins is loaded, because they print URLs.
 */
import { type ClientRequest, type IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";

import { createProxyMiddleware, type RequestHandler } from "http-proxy-middleware";

import { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import type {
  Observer,
  Question,
  SendEnd,
  SendPermit,
  StreamSink,
  UpstreamFaultKind,
  UpstreamRequest,
} from "../types.ts";
import { validatorsIn } from "./conditional.ts";
import { type Confidential, withSignature } from "./explanation.ts";
import { collect, faultOf, UpstreamFault, wholeAnswer, type RawAnswer } from "./fetch.ts";
import { outgoingHeaders, type Identity, type Origin } from "./origin.ts";
import { areRenewed, type Credentials } from "./sign.ts";
import { judgeAnswer, judgeFault, slowDownAfter, slowDownIn, type Verdict } from "./verdict.ts";

export interface PassThroughOptions {
  readonly originOf: (resource: Resource) => Origin;
  /** @returns the path and query for the upstream, unsigned */
  readonly targetOf: (query: Query | StreamedQuery) => string;
  readonly credentials: Credentials;
  readonly identity: Identity;
  /** Texts that are removed from everything callers see. */
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
 * Sends the upstream's answer to the caller. Rejects with a `Problem` if there is no usable answer; then nothing has been
 * sent to the caller.
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
    const { app, deadlineAt, priority } = request;
    const upstreamRequest: UpstreamRequest = {
      app,
      cause: "bypass",
      resource: query.resource,
      query: question.canonicalQuery,
      waiting: {
        abandoned: request.gone(),
        deadlineAt: () => deadlineAt,
        priority: () => priority,
        // There is only one waiter, so its app and priority never change.
        apps: () => [app],
        onChange: () => undefined,
        inQueue: () => undefined,
      },
    };
    // The permit is released when the answer is complete, even if the caller reads it slowly.
    const wait = request.trace?.begin("queue wait");
    const sent = origin.throttled(upstreamRequest, async (ended, { sendBy }) => {
      wait?.end();
      const record = createRecord(question, ended, options);
      const signedWith = options.credentials.version();
      try {
        const exchange = await send(question, origin, message, sendBy);
        const { status, headAt, headers, body } = exchange.answer;
        const verdict = judged(exchange, question, signedWith, options);
        if (verdict.kind === "answer") {
          record(status, body.length, { headAt });
          return { headers: passedHeaders(headers, verdict, options.clock.now()), body: verdict.body };
        }
        const problem = "problem" in verdict ? verdict.problem : new Problem("upstream-invalid-response");
        const slowDown = slowDownIn(exchange.answer, options.clock.now());
        record(status, body.length, { note: problem.message, headAt, ...(slowDown && { slowDown }) });
        throw problem;
      } catch (error) {
        if (!(error instanceof UpstreamFault)) throw error;
        const slowDown = slowDownAfter(error.kind);
        record(error.kind, 0, { note: error.message, ...(slowDown && { slowDown }) });
        throw judgeFault(error).problem;
      }
    });
    const passed = await sent.finally(() => wait?.end());
    sink.start(passed.headers);
    // Node itself omits the body of a response to HEAD. `Content-Length` stays.
    if (request.method !== "HEAD") sink.passed(passed.body.length);
    sink.response.end(passed.body);
  };
}

/** @returns the upstream's headers about the content, corrected for the body that the caller gets */
function passedHeaders(
  headers: RawAnswer["headers"],
  { contentType, body }: Extract<Verdict, { kind: "answer" }>,
  now: number,
): Record<string, string> {
  const { etag, lastModified } = validatorsIn(headers, now);
  // The caller gets the decoded body, so the entity tag of an encoded one is not valid (RFC 9110, section 8.8.3.3).
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
    confidential: () => withSignature(options.confidential, url),
    maxCoolOffMs: options.maxCoolOffMs(),
    now,
  });
}

interface CallEnd extends Pick<SendEnd, "slowDown"> {
  /** When the head of the answer arrived, by the monotonic clock. */
  readonly headAt?: number;
  readonly note?: string;
}

function createRecord(
  { query, canonicalQuery, request }: Question<Query | StreamedQuery>,
  ended: (end: SendEnd) => void,
  { clock, observer }: PassThroughOptions,
): (status: number | UpstreamFaultKind, bytes: number, end: CallEnd) => void {
  const startedAt = clock.monotonic();
  const begunAt = clock.precise();
  const { resource } = query;
  const span = request.trace?.begin("upstream call", { resource, query: canonicalQuery, cause: "bypass" });
  return (status, bytes, { headAt = clock.monotonic(), note, slowDown }) => {
    const durationMs = clock.monotonic() - startedAt;
    ended({ status, durationMs, arrivedAfterMs: headAt - startedAt, ...(slowDown && { slowDown }) });
    span?.end({ status, bytes, ...(note !== undefined && { error: String(status) }) });
    observer.upstreamCall({
      resource,
      query: canonicalQuery,
      cause: "bypass",
      status,
      durationMs: clock.precise() - begunAt,
      bytes,
      ...(note !== undefined && { note }),
    });
  };
}

/** Receives the proxy's events of one request. The proxy identifies the request by the caller's message only. */
interface Exchange {
  readonly departed: (request: ClientRequest) => void;
  readonly answered: (response: IncomingMessage) => void;
  readonly failed: (error: Error) => void;
}

/** A complete answer, and the signed path and query it answers. */
interface Sent {
  readonly answer: RawAnswer;
  readonly url: string;
}

type Send = (
  question: Question<Query | StreamedQuery>,
  origin: Origin,
  message: IncomingMessage,
  sendBy: number | undefined,
) => Promise<Sent>;

/** @returns a function that sends one request through the proxy and collects the answer */
function createSend(options: PassThroughOptions): Send {
  const exchanges = new WeakMap<IncomingMessage, Exchange>();
  const proxies = new Map<Origin, RequestHandler>();

  return async function send({ request, query }, origin, message, sendBy) {
    const proxy = proxies.get(origin) ?? createProxy(origin, exchanges);
    proxies.set(origin, proxy);

    const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>();
    const limits = createLimits(options, { ...request, sendBy }, reject);
    exchanges.set(message, {
      departed: limits.departed,
      answered: (response) => {
        const headAt = options.clock.monotonic();
        limits.received();
        collect(response, options.maxBodyBytes, limits.received)
          .then((received) => wholeAnswer(response, received, headAt, options.maxBodyBytes))
          .then(resolve, limits.fail);
      },
      failed: limits.failed,
    });
    const url = origin.sign(options.targetOf(query));
    message.url = url;
    message.headers = { ...outgoingHeaders(request.format, options.identity), "accept-encoding": "identity" };
    // A HEAD also needs a GET, because the interface has no other method (section 4).
    message.method = "GET";
    try {
      // The proxy gets a dummy response, because it aborts its response when the upstream's answer is aborted.
      void proxy(message, new ServerResponse(message), (error) => {
        limits.failed(error instanceof Error ? error : new Error("the proxy gave up"));
      });
      return { answer: await promise, url };
    } finally {
      // Removes the signature from the message.
      message.url = "/";
      message.method = request.method;
      limits.stop();
    }
  };
}

interface Limits {
  readonly departed: (sent: ClientRequest) => void;
  /** A piece of the answer has arrived. Starts the time limit for the next one. */
  readonly received: () => void;
  /** Ends the exchange with this error. */
  readonly fail: (error: Error) => void;
  /** The connection failed. Ends the exchange with the matching fault. */
  readonly failed: (error: Error) => void;
  /** Removes all limits. */
  readonly stop: () => void;
}

/** Ends an exchange at its time limits, at the caller's deadline, and when the caller hangs up. */
function createLimits(
  { clock, connectTimeoutMs, headerTimeoutMs, bodyTimeoutMs, totalTimeoutMs }: PassThroughOptions,
  { deadlineAt, gone: goneOf, sendBy }: Question["request"] & SendPermit,
  reject: (error: Error) => void,
): Limits {
  const gone = goneOf();
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
  const hungUp = (): void => fail(new UpstreamFault("given-up", "the caller hung up"));

  let cancelNext = within(connectTimeoutMs + headerTimeoutMs, "header-timeout");
  const cancelTotal = within(totalTimeoutMs, "total-timeout");
  const cancelDeadline = clock.after(deadlineAt - clock.now(), () =>
    fail(new UpstreamFault("given-up", "the caller's deadline passed")),
  );
  gone.addEventListener("abort", hungUp, { once: true });
  if (gone.aborted) hungUp();

  return {
    departed(sent) {
      outgoing = sent;
      const check = (): void => {
        if (clock.monotonic() > (sendBy ?? Number.POSITIVE_INFINITY))
          fail(new UpstreamFault("stale-connection", "the permit expired before the connection was ready"));
      };
      // Node sends the head when the connection is ready. This listener runs before the one that sends.
      if (sent.socket?.connecting) sent.socket.prependOnceListener("connect", check);
      else check();
      if (isOver) sent.destroy();
    },
    received() {
      isAnswered = true;
      cancelNext();
      if (!isOver) cancelNext = within(bodyTimeoutMs, "body-timeout");
    },
    fail,
    failed(error) {
      const cutBody = isAnswered ? new UpstreamFault("cut-body", "cut-body") : undefined;
      fail(cutBody ?? faultOf(error, outgoing?.reusedSocket ?? false));
    },
    stop() {
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
    // Drops the caller's content: a GET has none, and unframed bytes must not reach the upstream.
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

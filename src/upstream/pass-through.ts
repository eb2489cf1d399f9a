/**
 * Passes through requests that are not cached: those with `no-store`, and those for the paths in `upstream.passThrough`.
 *
 * http-proxy-middleware forwards the request and streams the answer. The permit is held until the response has begun.
 * There is no retry. If the status, the beginning or a short body show that it is no answer of the API, the caller gets a
 * problem. A stream that fails later is cut, so that no caller takes it for a whole answer.
 */
import type { ClientRequest, IncomingMessage, ServerResponse, IncomingHttpHeaders } from "node:http";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";

import { createProxyMiddleware, proxyEventsPlugin, type RequestHandler } from "http-proxy-middleware";

import type { Resource } from "../interface/resources.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import type { GatewayRequest, Question } from "../query/question.ts";
import type { SendPermit, Waiting } from "../ratelimit/throttled.ts";
import type { UpstreamFaultKind } from "../telemetry/events.ts";
import { validatorsIn } from "./caching-headers.ts";
import { type Call, type CallOptions, type Origin, whenPermitted } from "./call.ts";
import { resetCall } from "./connections.ts";
import { collect, faultOf, sendWhenConnected, UpstreamFault } from "./send.ts";
import { StreamGuard } from "./stream-guard.ts";
import { jsonContentType, judgeFault, type Verdict } from "./verdict.ts";

/** The destination of an answer that is not cached. */
export interface StreamSink {
  readonly response: ServerResponse;
  /** Sets the status and headers of the response, from the upstream's headers. */
  readonly start: (headers: IncomingHttpHeaders) => void;
  /** Reports the bytes of the body. */
  readonly passed: (bytes: number) => void;
}

/**
 * Streams the upstream's answer to the caller. Rejects with a `Problem` if there is no usable answer; then nothing has been
 * sent to the caller.
 */
export type PassThrough = (
  question: Question<Query | StreamedQuery>,
  message: IncomingMessage,
  sink: StreamSink,
) => Promise<void>;

export function createPassThrough(options: CallOptions): PassThrough {
  const proxies = new Map<Origin, RequestHandler>();

  return async function passThrough(question, message, sink) {
    const wanted = { question, cause: "bypass", waiting: oneWaiter(question.request) } as const;
    await whenPermitted(wanted, options, (call, permit) => {
      const exchange = new Exchange({ ...options, request: question.request, sink, call, permit });
      const proxy = proxies.get(call.origin) ?? createProxy(call.origin);
      proxies.set(call.origin, proxy);
      void proxy(proxiedMessage(message, exchange), withoutDestroy(sink.response));
      return exchange.begun.promise;
    });
  };
}

/** There is only one waiter, so its app and priority never change. */
function oneWaiter({ app, deadlineAt, priority, gone }: GatewayRequest): Waiting {
  return {
    abandoned: gone(),
    deadlineAt: () => deadlineAt,
    priority: () => priority,
    apps: () => [app],
    onChange: () => undefined,
    inQueue: () => undefined,
  };
}

function createProxy({ baseUrl, agent }: Origin): RequestHandler {
  return createProxyMiddleware({
    target: baseUrl,
    agent,
    changeOrigin: true,
    secure: true,
    followRedirects: false,
    selfHandleResponse: true,
    pathRewrite: (_path, proxied) => exchangeOf(proxied).call.target,
    on: {
      proxyRes: (answer, proxied) => exchangeOf(proxied).answered(answer),
      error: (error, proxied) => exchangeOf(proxied).failed(error),
    },
    // The other default plugins print URLs, which are signed.
    ejectPlugins: true,
    plugins: [proxyEventsPlugin],
  });
}

function exchangeOf(proxied: IncomingMessage): Exchange {
  const exchange: Exchange = Reflect.get(proxied, "exchange");
  return exchange;
}

/** @returns the message that the proxy sees: without the caller's headers, content and method */
function proxiedMessage(message: IncomingMessage, exchange: Exchange): IncomingMessage {
  const headers = { ...exchange.call.headers, "accept-encoding": "identity", connection: "keep-alive" };
  const proxied: IncomingMessage = Object.create(message, {
    exchange: { value: exchange },
    url: { value: "/", writable: true },
    // A HEAD also needs a GET, because the interface has no other method (section 4).
    method: { value: "GET" },
    headers: { value: headers },
    // The proxy writes the content of the message in this way. A GET has none.
    pipe: { value: (outgoing: ClientRequest) => exchange.ready(outgoing) },
  });
  return proxied;
}

/** @returns the response without `destroy`: the proxy would use it for a cut answer, before the problem is sent */
function withoutDestroy(response: ServerResponse): ServerResponse {
  const kept: ServerResponse = Object.create(response, { destroy: { value: () => response } });
  return kept;
}

interface ExchangeOptions extends CallOptions {
  readonly request: GatewayRequest;
  readonly sink: StreamSink;
  readonly call: Call;
  readonly permit: SendPermit;
}

/** One call that is passed through. */
class Exchange {
  readonly call: Call;
  /** Resolves when the response has begun. Rejects with a `Problem` before that. */
  readonly begun = Promise.withResolvers<void>();
  readonly #options: ExchangeOptions;
  readonly #startedAt: number;
  readonly #over = new AbortController();
  #outgoing: ClientRequest | undefined;
  #isAnswered = false;
  #cancelLimit: () => void = () => undefined;

  constructor(options: ExchangeOptions) {
    const { call, clock, request, upstream } = options;
    this.call = call;
    this.#options = options;
    this.#startedAt = clock.monotonic();
    const headWithinMs = Math.min(
      upstream.connectTimeoutMs + upstream.headerTimeoutMs,
      upstream.totalTimeoutMs,
    );
    const callerWaitsMs = request.deadlineAt - clock.now();
    if (callerWaitsMs < headWithinMs) this.#limit(callerWaitsMs, "given-up");
    else this.#limit(headWithinMs, "header-timeout");
    const onGone = (): void => this.#fail(new UpstreamFault("given-up", "the caller hung up"));
    request.gone().addEventListener("abort", onGone, { signal: this.#over.signal });
    if (request.gone().aborted) onGone();
  }

  /** The request is ready to be sent. */
  ready(outgoing: ClientRequest): void {
    this.#outgoing = outgoing;
    if (this.#over.signal.aborted) return resetCall(outgoing);
    const { permit, clock } = this.#options;
    sendWhenConnected(outgoing, { ...permit, clock }, (fault) => this.#fail(fault));
  }

  answered(answer: IncomingMessage): void {
    const { clock, upstream } = this.#options;
    const headAt = clock.monotonic();
    this.#isAnswered = true;
    if (this.#over.signal.aborted) return;
    this.#limit(upstream.totalTimeoutMs - (headAt - this.#startedAt), "total-timeout");
    if (answer.statusCode === 200) this.#stream(answer, headAt);
    else void this.#refuse(answer, headAt);
  }

  failed(error: Error): void {
    // A later error ends the body, and is noticed there.
    if (!this.#isAnswered) this.#fail(faultOf(error, this.#outgoing?.reusedSocket ?? false));
  }

  /** Answers with a problem for any status but 200. */
  async #refuse(answer: IncomingMessage, headAt: number): Promise<void> {
    const { statusCode: status = 0, headers } = answer;
    const body = await collect(answer, this.#options.upstream.maxBodyBytes).catch(() => Buffer.alloc(0));
    if (this.#over.signal.aborted) return;
    this.#end(status, body.length, this.call.judge({ status, headers, headAt, body }), headAt);
  }

  #stream(answer: IncomingMessage, headAt: number): void {
    const { sink, request, clock, upstream } = this.#options;
    const { route, method } = request;
    const { headers } = answer;
    this.call.begun(200, undefined, headAt);
    const coding = headers["content-encoding"]?.toLowerCase() ?? "identity";
    if (coding !== "identity" && coding !== "gzip")
      return this.#fail(new UpstreamFault("bad-encoding", "the content coding is not gzip"));
    const unzip = coding === "gzip" ? [createGunzip()] : [];
    const guard = new StreamGuard({
      resource: route.resource,
      signature: this.call.signature,
      maxBytes: upstream.maxBodyBytes,
      isWhole: () => answer.complete,
      judge: (body) => this.call.judge({ status: 200, headers, headAt, body }),
      onBegin: () => {
        sink.start(passedHeaders(headers, route.resource, unzip.length > 0, clock.now()));
        guard.pipe(sink.response);
        this.begun.resolve();
      },
    });
    pipeline([answer, ...unzip, guard], (error) => {
      if (error) this.#fail(streamFaultOf(error), guard.bytes);
    });
    guard.on("end", () => {
      if (method !== "HEAD" && !this.#over.signal.aborted) sink.passed(guard.bytes);
      this.#end(200, guard.bytes);
    });
  }

  #limit(ms: number, kind: UpstreamFaultKind): void {
    this.#cancelLimit();
    this.#cancelLimit = this.#options.clock.after(ms, () => this.#fail(new UpstreamFault(kind)));
  }

  #fail(fault: UpstreamFault, bytes = 0): void {
    if (this.#over.signal.aborted) return;
    this.#end(fault.kind, bytes, judgeFault(fault));
    if (this.#outgoing) resetCall(this.#outgoing);
  }

  /** Only the first end counts. */
  #end(status: number | UpstreamFaultKind, bytes: number, verdict?: Verdict, headAt?: number): void {
    if (this.#over.signal.aborted) return;
    const { response } = this.#options.sink;
    this.#over.abort();
    this.#cancelLimit();
    this.call.over(status, bytes, verdict, headAt);
    if (verdict?.problem === undefined) return;
    this.begun.reject(verdict.problem);
    if (response.headersSent) response.destroy();
  }
}

function streamFaultOf(error: Error & { readonly code?: string | undefined }): UpstreamFault {
  if (error instanceof UpstreamFault) return error;
  return error.code?.startsWith("Z_") === true
    ? new UpstreamFault("bad-encoding", "the gzip body cannot be decoded")
    : new UpstreamFault("cut-body");
}

/** @returns the upstream's headers about the content */
function passedHeaders(
  headers: IncomingHttpHeaders,
  resource: Resource,
  isZipped: boolean,
  now: number,
): Record<string, string> {
  const { etag, lastModified } = validatorsIn(headers, now);
  const { "content-length": length, "content-type": type } = headers;
  return {
    "content-type": resource === "images" ? "image/jpeg" : jsonContentType(type),
    // The caller gets the decoded body, so length and entity tag of an encoded one are not valid (RFC 9110, section 8.8.3.3).
    ...(!isZipped && length !== undefined && { "content-length": length }),
    ...(!isZipped && etag !== undefined && { etag }),
    ...(lastModified !== undefined && { "last-modified": lastModified }),
  };
}

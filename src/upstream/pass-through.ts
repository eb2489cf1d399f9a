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
import { type Agent, resetCall } from "./agent.ts";
import type { AttemptOptions } from "./attempt.ts";
import { validatorsIn } from "./caching-headers.ts";
import { type Call, whenPermitted } from "./call.ts";
import { collect, faultOf, sendWhenConnected, UpstreamFault } from "./fetch.ts";
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

type StreamQuestion = Question<Query | StreamedQuery>;

/**
 * Streams the upstream's answer to the caller. Rejects with a `Problem` if there is no usable answer; then nothing has been
 * sent to the caller.
 */
export type PassThrough = (
  question: StreamQuestion,
  message: IncomingMessage,
  sink: StreamSink,
) => Promise<void>;

export function createPassThrough(options: AttemptOptions): PassThrough {
  const proxies = new Map<string, RequestHandler>();

  return async function passThrough(question, message, sink) {
    const origin = options.originOf(question.query.resource);
    const proxy = proxies.get(origin.baseUrl) ?? createProxy(origin);
    proxies.set(origin.baseUrl, proxy);
    const asked = { question, cause: "bypass", waiting: oneWaiter(question.request) } as const;
    await whenPermitted(asked, origin, options, (call, permit) => {
      const exchange = new Exchange({ question, sink, call, permit }, options);
      const headers = { ...call.headers, "accept-encoding": "identity", connection: "keep-alive" };
      void proxy(bareMessage(message, headers, exchange), withoutDestroy(sink.response));
      return exchange.begun;
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

/** @returns the message that the proxy sees: without the caller's headers, content and method */
function bareMessage(
  message: IncomingMessage,
  headers: Record<string, string>,
  exchange: Exchange,
): IncomingMessage {
  const bare: IncomingMessage = Object.create(message, {
    exchange: { value: exchange },
    url: { value: "/", writable: true },
    // A HEAD also needs a GET, because the interface has no other method (section 4).
    method: { value: "GET" },
    headers: { value: headers },
    // The proxy writes the content of the message in this way. A GET has none.
    pipe: { value: (outgoing: ClientRequest) => exchange.ready(outgoing) },
  });
  return bare;
}

function exchangeOf(bare: IncomingMessage): Exchange {
  const exchange: Exchange = Reflect.get(bare, "exchange");
  return exchange;
}

/** @returns the response without `destroy`: the proxy would use it for a cut answer, before the problem is sent */
function withoutDestroy(response: ServerResponse): ServerResponse {
  const kept: ServerResponse = Object.create(response, { destroy: { value: () => response } });
  return kept;
}

function createProxy({ baseUrl, agent }: { baseUrl: string; agent: Agent }): RequestHandler {
  return createProxyMiddleware({
    target: baseUrl,
    agent,
    changeOrigin: true,
    secure: true,
    followRedirects: false,
    selfHandleResponse: true,
    pathRewrite: (_path, bare) => exchangeOf(bare).target,
    on: {
      proxyRes: (answer, bare) => exchangeOf(bare).answered(answer),
      error: (error, bare) => exchangeOf(bare).failed(error),
    },
    // The other default plugins print URLs, which are signed.
    ejectPlugins: true,
    plugins: [proxyEventsPlugin],
  });
}

interface Passing {
  readonly question: StreamQuestion;
  readonly sink: StreamSink;
  readonly call: Call;
  readonly permit: SendPermit;
}

/** One call that is passed through. */
class Exchange {
  readonly #passing: Passing;
  readonly #options: AttemptOptions;
  readonly #begun = Promise.withResolvers<void>();
  readonly #startedAt: number;
  #outgoing: ClientRequest | undefined;
  #isAnswered = false;
  #isOver = false;
  #cancelLimit: () => void = () => undefined;

  constructor(passing: Passing, options: AttemptOptions) {
    const { request } = passing.question;
    const { connectTimeoutMs, headerTimeoutMs, totalTimeoutMs } = options.upstream;
    this.#passing = passing;
    this.#options = options;
    this.#startedAt = options.clock.monotonic();
    const headWithinMs = Math.min(connectTimeoutMs + headerTimeoutMs, totalTimeoutMs);
    const callerWaitsMs = request.deadlineAt - options.clock.now();
    if (callerWaitsMs < headWithinMs) this.#limit(callerWaitsMs, "given-up");
    else this.#limit(headWithinMs, "header-timeout");
    request.gone().addEventListener("abort", this.#onGone, { once: true });
    if (request.gone().aborted) this.#onGone();
  }

  /** The signed path and query. */
  get target(): string {
    return this.#passing.call.target;
  }

  /** Resolves when the response has begun. Rejects with a `Problem` before that. */
  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  /** The request is ready to be sent. */
  ready(outgoing: ClientRequest): void {
    this.#outgoing = outgoing;
    if (this.#isOver) return resetCall(outgoing);
    const { clock } = this.#options;
    sendWhenConnected(outgoing, { ...this.#passing.permit, clock }, (fault) => this.#fail(fault));
  }

  answered(answer: IncomingMessage): void {
    const { clock, upstream } = this.#options;
    const headAt = clock.monotonic();
    this.#isAnswered = true;
    if (this.#isOver) return;
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
    const { call } = this.#passing;
    const { statusCode: status = 0, headers } = answer;
    const body = await collect(answer, this.#options.upstream.maxBodyBytes).catch(() => Buffer.alloc(0));
    if (this.#isOver) return;
    const verdict = call.judge({ status, headers, headAt, body });
    call.begun(status, verdict, headAt);
    this.#finish(status, body.length, verdict);
  }

  #stream(answer: IncomingMessage, headAt: number): void {
    const { call, sink, question } = this.#passing;
    const { resource } = question.query;
    const { headers } = answer;
    call.begun(200, undefined, headAt);
    const coding = headers["content-encoding"]?.toLowerCase() ?? "identity";
    if (coding !== "identity" && coding !== "gzip")
      return this.#fail(new UpstreamFault("bad-encoding", "the content coding is not gzip"));
    const unzip = coding === "gzip" ? [createGunzip()] : [];
    const guard = new StreamGuard({
      resource,
      signature: call.signature,
      maxBytes: this.#options.upstream.maxBodyBytes,
      isWhole: () => answer.complete,
      judge: (body) => call.judge({ status: 200, headers, headAt, body }),
      onBegin: () => {
        sink.start(passedHeaders(headers, resource, unzip.length > 0, this.#options.clock.now()));
        guard.pipe(sink.response);
        this.#begun.resolve();
      },
    });
    pipeline([answer, ...unzip, guard], (error) => {
      if (error) this.#fail(streamFaultOf(error), guard.bytes);
    });
    guard.on("end", () => {
      if (this.#isOver) return;
      if (question.request.method !== "HEAD") sink.passed(guard.bytes);
      this.#finish(200, guard.bytes);
    });
  }

  readonly #onGone = (): void => this.#fail(new UpstreamFault("given-up", "the caller hung up"));

  #limit(ms: number, kind: UpstreamFaultKind): void {
    this.#cancelLimit();
    this.#cancelLimit = this.#options.clock.after(ms, () => this.#fail(new UpstreamFault(kind)));
  }

  #fail(fault: UpstreamFault, bytes = 0): void {
    if (this.#isOver) return;
    const verdict = judgeFault(fault);
    this.#passing.call.begun(fault.kind, verdict);
    this.#finish(fault.kind, bytes, verdict);
    if (this.#outgoing) resetCall(this.#outgoing);
  }

  #finish(status: number | UpstreamFaultKind, bytes: number, verdict?: Verdict): void {
    const { call, sink, question } = this.#passing;
    this.#isOver = true;
    this.#cancelLimit();
    question.request.gone().removeEventListener("abort", this.#onGone);
    call.over(status, bytes, verdict);
    if (verdict?.problem === undefined) return;
    this.#begun.reject(verdict.problem);
    if (sink.response.headersSent) sink.response.destroy();
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

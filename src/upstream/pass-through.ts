/**
 * Passes through requests that are not cached: those with `no-store`, and those for the paths in `upstream.passThrough`.
 *
 * http-proxy-middleware forwards the request and streams the answer. The permit is held until the response has begun.
 * There is no retry. If the status, the beginning or a short body show that it is no answer of the API, the caller gets a
 * problem. A stream that fails later is cut, so that no caller takes it for a whole answer.
 */
import type { ClientRequest, IncomingMessage, ServerResponse, IncomingHttpHeaders } from "node:http";
import { createGunzip } from "node:zlib";

import { createProxyMiddleware, proxyEventsPlugin, type RequestHandler } from "http-proxy-middleware";

import { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import type { Question } from "../query/question.ts";
import type { SendEnd, SendPermit, UpstreamRequest } from "../ratelimit/throttled.ts";
import type { UpstreamFaultKind } from "../telemetry/events.ts";
import { type AttemptOptions, judge } from "./attempt.ts";
import { validatorsIn } from "./conditional.ts";
import { resetCall } from "./agent.ts";
import { collect, faultOf, sendWhenConnected, UpstreamFault } from "./fetch.ts";
import type { Origin } from "./origin.ts";
import { outgoingHeaders } from "./outgoing-headers.ts";
import { type CallStatus, recordCall } from "./record.ts";
import { StreamGuard } from "./stream-guard.ts";
import {
  type Asked,
  jsonContentType,
  judgeAnswer,
  judgeFault,
  noteOf,
  REPEATED_SIGNATURE,
  reportRepeatedSignature,
  slowDownAfter,
  slowDownIn,
} from "./verdict.ts";

/** The destination of an answer that is not cached. */
export interface StreamSink {
  readonly response: ServerResponse;
  /** Sets the status and headers of the response, from the upstream's headers. */
  readonly start: (headers: IncomingHttpHeaders) => void;
  /** Reports the bytes of the body. */
  readonly passed: (bytes: number) => void;
}

export interface PassThroughOptions extends Omit<AttemptOptions, "retryDelayMs" | "random"> {
  /** @returns the path and query for the upstream, unsigned */
  readonly targetOf: (query: Query | StreamedQuery) => string;
  readonly connectTimeoutMs: number;
  readonly headerTimeoutMs: number;
  readonly maxBodyBytes: number;
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

export function createPassThrough(options: PassThroughOptions): PassThrough {
  const proxies = new Map<Origin, RequestHandler>();

  return async function passThrough(question, message, sink) {
    const origin = options.originOf(question.query.resource);
    const proxy = proxies.get(origin) ?? createProxy(origin);
    proxies.set(origin, proxy);
    const wait = question.request.trace?.begin("queue wait");
    const { format } = question.request;
    const headers = { ...outgoingHeaders(format, options.identity), "accept-encoding": "identity" };
    const begun = origin.throttled(requestOf(question), (report, permit) => {
      wait?.end();
      const call = new PassedCall({ question, origin, sink, permit, report }, options);
      const bare = bareMessage(message, { ...headers, connection: "keep-alive" }, call);
      void proxy(bare, withoutDestroy(sink.response));
      return call.begun;
    });
    await begun.finally(() => wait?.end());
  };
}

function requestOf({ request, query, canonicalQuery }: StreamQuestion): UpstreamRequest {
  const { app, deadlineAt, priority } = request;
  return {
    app,
    cause: "bypass",
    resource: query.resource,
    query: canonicalQuery,
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
}

/** What the proxy asks and reports about one call. */
type Exchange = Pick<PassedCall, "sign" | "ready" | "answered" | "failed">;

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

/** @returns the response without `destroy`: the proxy would use it for a cut answer, before the problem is sent */
function withoutDestroy(response: ServerResponse): ServerResponse {
  const kept: ServerResponse = Object.create(response, { destroy: { value: () => response } });
  return kept;
}

function exchangeOf(bare: IncomingMessage): Exchange {
  const exchange: Exchange = Reflect.get(bare, "exchange");
  return exchange;
}

function createProxy(origin: Origin): RequestHandler {
  return createProxyMiddleware({
    target: origin.baseUrl,
    agent: origin.agent,
    changeOrigin: true,
    secure: true,
    followRedirects: false,
    selfHandleResponse: true,
    pathRewrite: (_path, bare) => exchangeOf(bare).sign(),
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
  readonly origin: Origin;
  readonly sink: StreamSink;
  readonly permit: SendPermit;
  /** Tells the budget and the circuits how the call went. */
  readonly report: (end: SendEnd) => void;
}

/** One call that is passed through. */
class PassedCall {
  readonly #passing: Passing;
  readonly #options: PassThroughOptions;
  readonly #record: ReturnType<typeof recordCall>;
  readonly #signedWith: number;
  readonly #startedAt: number;
  readonly #begun = Promise.withResolvers<void>();
  #signature: readonly string[] = [];
  #outgoing: ClientRequest | undefined;
  #isAnswered = false;
  #isOver = false;
  #cancelLimit: () => void = () => undefined;

  constructor(passing: Passing, options: PassThroughOptions) {
    const { request, query, canonicalQuery } = passing.question;
    const { clock, connectTimeoutMs, headerTimeoutMs, totalTimeoutMs } = options;
    this.#passing = passing;
    this.#options = options;
    const call = {
      resource: query.resource,
      query: canonicalQuery,
      cause: "bypass",
      trace: request.trace,
    } as const;
    this.#record = recordCall(call, passing.report, options);
    this.#signedWith = options.credentials.currentNumber();
    this.#startedAt = clock.monotonic();
    const headWithinMs = Math.min(connectTimeoutMs + headerTimeoutMs, totalTimeoutMs);
    const callerWaitsMs = request.deadlineAt - clock.now();
    if (callerWaitsMs < headWithinMs) this.#limit(callerWaitsMs, "given-up", "the caller's deadline passed");
    else this.#limit(headWithinMs, "header-timeout");
    request.gone().addEventListener("abort", this.#onGone, { once: true });
    if (request.gone().aborted) this.#onGone();
  }

  /** Resolves when the response has begun. Rejects with a `Problem` before that. */
  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  sign(): string {
    const { origin, question } = this.#passing;
    const { target, signature } = origin.sign(this.#options.targetOf(question.query));
    this.#signature = signature;
    return target;
  }

  /** The request is ready to be sent. */
  ready(outgoing: ClientRequest): void {
    this.#outgoing = outgoing;
    if (this.#isOver) return resetCall(outgoing);
    const { clock } = this.#options;
    sendWhenConnected(outgoing, { ...this.#passing.permit, clock }, (fault) => this.#fail(fault));
  }

  answered(answer: IncomingMessage): void {
    const headAt = this.#options.clock.monotonic();
    this.#isAnswered = true;
    if (this.#isOver) return;
    this.#limit(this.#options.totalTimeoutMs - (headAt - this.#startedAt), "total-timeout");
    if (answer.statusCode !== 200) return void this.#refuse(answer, headAt);
    this.#record.begun(200, undefined, headAt);
    this.#stream(answer);
  }

  failed(error: Error): void {
    const cut = new UpstreamFault("cut-body", "the body is not whole");
    this.#fail(this.#isAnswered ? cut : faultOf(error, this.#outgoing?.reusedSocket ?? false));
  }

  /** Answers with a problem for any status but 200. */
  async #refuse(answer: IncomingMessage, headAt: number): Promise<void> {
    const { maxBodyBytes } = this.#options;
    const body = await collect(answer, maxBodyBytes, () => undefined).catch(() => Buffer.alloc(0));
    if (this.#isOver) return;
    const { statusCode: status = 0, headers } = answer;
    const asked = this.#asked();
    const verdict = judge({ status, headers, body }, asked, this.#signedWith, this.#options);
    const problem = "problem" in verdict ? verdict.problem : new Problem("upstream-invalid-response");
    this.#record.begun(status, slowDownIn({ status, headers }, asked.now), headAt);
    this.#finish(status, body.length, problem);
  }

  #stream(answer: IncomingMessage): void {
    const { sink, question } = this.#passing;
    const { resource } = question.query;
    const { clock, maxBodyBytes, observer } = this.#options;
    const coding = answer.headers["content-encoding"]?.toLowerCase() ?? "identity";
    if (coding !== "identity" && coding !== "gzip")
      return this.#fail(new UpstreamFault("bad-encoding", "the content coding is not gzip"));
    const guard = new StreamGuard({
      resource,
      signature: this.#signature,
      maxBytes: maxBodyBytes,
      faultOf: (body) => noteOf(judgeAnswer({ status: 200, headers: answer.headers, body }, this.#asked())),
      onBegin: () => {
        sink.start(passedHeaders(answer, resource, coding === "identity", clock.now()));
        guard.pipe(sink.response);
        this.#begun.resolve();
      },
    });
    guard.on("error", (error) => {
      if (error.message === REPEATED_SIGNATURE) reportRepeatedSignature(resource, observer);
      const fault = error instanceof UpstreamFault ? error : new UpstreamFault("malformed", error.name);
      this.#fail(fault, guard.bytes);
    });
    guard.on("end", () => {
      if (question.request.method !== "HEAD") sink.passed(guard.bytes);
      if (!this.#isOver) this.#finish(200, guard.bytes);
    });
    const cut = (): void => this.#fail(new UpstreamFault("cut-body", "the body is not whole"), guard.bytes);
    answer.on("error", cut);
    // A body without its last chunk also ends with `end`.
    answer.on("end", () => answer.complete || cut());
    if (coding === "identity") return void answer.pipe(guard);
    const unzipped = createGunzip().on("error", () =>
      this.#fail(new UpstreamFault("bad-encoding", "the gzip body cannot be decoded"), guard.bytes),
    );
    answer.pipe(unzipped).pipe(guard);
  }

  #asked(): Asked {
    const { query } = this.#passing.question;
    const { confidential, maxCoolOffMs, clock } = this.#options;
    return {
      resource: query.resource,
      serviceId: query.kind === "record" ? query.serviceId : undefined,
      signature: this.#signature,
      confidential: confidential(),
      maxCoolOffMs: maxCoolOffMs(),
      now: clock.now(),
    };
  }

  readonly #onGone = (): void => this.#fail(new UpstreamFault("given-up", "the caller hung up"));

  #limit(ms: number, kind: UpstreamFaultKind, why: string = kind): void {
    this.#cancelLimit();
    this.#cancelLimit = this.#options.clock.after(ms, () => this.#fail(new UpstreamFault(kind, why)));
  }

  #fail(fault: UpstreamFault, bytes = 0): void {
    if (this.#isOver) return;
    this.#record.begun(fault.kind, slowDownAfter(fault.kind));
    this.#finish(fault.kind, bytes, judgeFault(fault).problem);
    if (this.#outgoing) resetCall(this.#outgoing);
  }

  #finish(status: CallStatus, bytes: number, problem?: Problem): void {
    const { question, sink } = this.#passing;
    this.#isOver = true;
    this.#cancelLimit();
    question.request.gone().removeEventListener("abort", this.#onGone);
    this.#record.ended(status, bytes, problem?.message);
    if (!problem) return;
    this.#begun.reject(problem);
    if (sink.response.headersSent) sink.response.destroy();
  }
}

/** @returns the upstream's headers about the content */
function passedHeaders(
  { headers }: IncomingMessage,
  resource: Resource,
  isAsSent: boolean,
  now: number,
): Record<string, string> {
  const { etag, lastModified } = validatorsIn(headers, now);
  const { "content-length": length, "content-type": type } = headers;
  return {
    "content-type": resource === "images" ? "image/jpeg" : jsonContentType(type),
    // The caller gets the decoded body, so length and entity tag of an encoded one are not valid (RFC 9110, section 8.8.3.3).
    ...(isAsSent && length !== undefined && { "content-length": length }),
    ...(isAsSent && etag !== undefined && { etag }),
    ...(lastModified !== undefined && { "last-modified": lastModified }),
  };
}

/**
 * Passes through requests that are not cached: those with `no-store`, and those for the paths in `upstream.passThrough`.
 *
 * http-proxy-middleware forwards the request and streams the answer. The permit is held until the response has begun.
 * There is no retry. If the status, the beginning or a short body show that it is no answer of the API, the caller gets a
 * problem. A stream that fails later is cut, so that no caller takes it for a whole answer.
 */
import { once } from "node:events";
import type { ClientRequest, IncomingMessage, ServerResponse, IncomingHttpHeaders } from "node:http";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";

import { createProxyMiddleware, proxyEventsPlugin, type RequestHandler } from "http-proxy-middleware";

import type { Resource } from "../interface/resources.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import type { GatewayRequest, Question } from "../query/question.ts";
import type { SendPermit, Waiting } from "../ratelimit/throttled.ts";
import type { UpstreamFaultKind } from "../telemetry/events.ts";
import { validatorsIn } from "./caching-headers.ts";
import { type Call, type CallOptions, type Origin, whenPermitted } from "./call.ts";
import { collect, Exchange, UpstreamFault } from "./send.ts";
import { StreamGuard } from "./stream-guard.ts";
import { jsonContentType, judgeFault } from "./verdict.ts";

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
      const begun = Promise.withResolvers<void>();
      const passing = { request: question.request, sink, call, permit, begun, bytes: () => 0 };
      const send = (outgoing: ClientRequest): void => void pass(outgoing, passing, options);
      const proxy = proxies.get(call.origin) ?? createProxy(call.origin);
      proxies.set(call.origin, proxy);
      proxy(proxiedMessage(message, call, send), withoutDestroy(sink.response)).catch(begun.reject);
      return begun.promise;
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
    pathRewrite: (_path, proxied) => proxied.url,
    // The exchange notices each error of its request itself.
    on: { error: () => undefined },
    // The other default plugins print URLs, which are signed.
    ejectPlugins: true,
    plugins: [proxyEventsPlugin],
  });
}

/** @returns the message that the proxy sees: with the signed target, and without the caller's headers, content and method */
function proxiedMessage(
  message: IncomingMessage,
  { target, headers }: Call,
  send: (outgoing: ClientRequest) => void,
): IncomingMessage {
  const proxied: IncomingMessage = Object.create(message, {
    url: { value: target, writable: true },
    // A HEAD also needs a GET, because the interface has no other method (section 4).
    method: { value: "GET" },
    headers: { value: { ...headers, "accept-encoding": "identity", connection: "keep-alive" } },
    // The proxy writes the content of the message in this way. A GET has none.
    pipe: { value: send },
  });
  return proxied;
}

/** @returns the response without `destroy`: the proxy would use it for a cut answer, before the problem is sent */
function withoutDestroy(response: ServerResponse): ServerResponse {
  const kept: ServerResponse = Object.create(response, { destroy: { value: () => response } });
  return kept;
}

/** One call that is passed through. */
interface Passing {
  readonly request: GatewayRequest;
  readonly sink: StreamSink;
  readonly call: Call;
  readonly permit: SendPermit;
  /** Resolves when the response has begun. Rejects with a `Problem` before that. */
  readonly begun: PromiseWithResolvers<void>;
  /** The bytes of the body so far. */
  bytes: () => number;
}

/** Sends the request, and streams its answer. Never rejects. */
async function pass(outgoing: ClientRequest, passing: Passing, options: CallOptions): Promise<void> {
  const { request, sink, call, permit, begun } = passing;
  const { clock, upstream } = options;
  const exchange = new Exchange(outgoing, clock);
  const failAfter = (ms: number, kind: UpstreamFaultKind): (() => void) =>
    clock.after(ms, () => exchange.fail(new UpstreamFault(kind)));
  const stopTotal = failAfter(upstream.totalTimeoutMs, "total-timeout");
  // The caller waits until then for the beginning of the response.
  const stopDeadline = failAfter(request.deadlineAt - clock.now(), "given-up");
  const gone = request.gone();
  const onGone = (): void => exchange.fail(new UpstreamFault("given-up", "the caller hung up"));
  gone.addEventListener("abort", onGone, { once: true });
  if (gone.aborted) onGone();
  try {
    const { answer, headAt } = await exchange.send(permit, upstream);
    exchange.end();
    stopDeadline();
    const { statusCode: status = 0, headers } = answer;
    if (status === 200) {
      call.over(status, await exchange.unlessFailed(stream(answer, headAt, passing, options)));
    } else {
      const whole = collect(answer, upstream.maxBodyBytes).catch(() => Buffer.alloc(0));
      const body = await exchange.unlessFailed(whole);
      const verdict = call.judge({ status, headers, headAt, body });
      call.over(status, body.length, verdict, headAt);
      begun.reject(verdict.problem);
    }
  } catch (error) {
    const fault = faultIn(error);
    const verdict = judgeFault(fault);
    exchange.fail(fault);
    call.over(fault.kind, passing.bytes(), verdict);
    begun.reject(verdict.problem);
    if (sink.response.headersSent) sink.response.destroy();
  } finally {
    stopTotal();
    stopDeadline();
    gone.removeEventListener("abort", onGone);
  }
}

/** Streams an answer with status 200. @returns the bytes of the body */
async function stream(
  answer: IncomingMessage,
  headAt: number,
  passing: Passing,
  { upstream, clock }: CallOptions,
): Promise<number> {
  const { request, sink, call, begun } = passing;
  const { headers } = answer;
  const { resource } = request.route;
  call.begun(200, undefined, headAt);
  const coding = headers["content-encoding"]?.toLowerCase() ?? "identity";
  if (coding !== "identity" && coding !== "gzip")
    throw new UpstreamFault("bad-encoding", "the content coding is not gzip");
  const unzip = coding === "gzip" ? [createGunzip()] : [];
  const guard = new StreamGuard({
    resource,
    signature: call.signature,
    maxBytes: upstream.maxBodyBytes,
    isWhole: () => answer.complete,
    judge: (body) => call.judge({ status: 200, headers, headAt, body }),
    onBegin: () => {
      sink.start(passedHeaders(headers, resource, unzip.length > 0, clock.now()));
      guard.pipe(sink.response);
      begun.resolve();
    },
  });
  passing.bytes = () => guard.bytes;
  // Count in the tick in which the response ends, because the request may be logged in the next tick.
  guard.once("end", () => request.method !== "HEAD" && sink.passed(guard.bytes));
  await Promise.all([pipeline([answer, ...unzip, guard]), once(guard, "end")]);
  return guard.bytes;
}

function faultIn(error: unknown): UpstreamFault {
  if (error instanceof UpstreamFault) return error;
  const isZipped = String(Object(error).code).startsWith("Z_");
  return isZipped
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

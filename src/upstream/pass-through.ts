/**
 * Passes through requests that are not cached: those with `no-store`, and those for the paths in `upstream.passThrough`.
 *
 * http-proxy-middleware makes the request, and `exchange` sends it and reads the answer, with the time limits of all calls. The
 * library's hooks are not used: it would write a request as soon as it is connected, also after its permit has expired, and it
 * cannot reset a call that is given up. The permit is held until the response has begun.
 * There is no retry. If the status, the beginning or a short body show that it is no answer of the API, the caller gets a
 * problem. A stream that fails later is cut, so that no caller takes it for a whole answer.
 */
import type { ClientRequest, IncomingMessage, ServerResponse, IncomingHttpHeaders } from "node:http";

import { createProxyMiddleware, type RequestHandler } from "http-proxy-middleware";

import type { Problem } from "../errors.ts";
import type { Resource } from "../interface/resources.ts";
import { memoize } from "../process/memoize.ts";
import type { AnyQuery } from "../query/query.ts";
import type { GatewayRequest, Question } from "../query/request.ts";
import type { SendPermit, Waiting } from "../ratelimit/call-facts.ts";
import type { UpstreamFaultKind } from "../telemetry/events.ts";
import { validatorsIn } from "./caching-headers.ts";
import { type Call, type CallOptions, type Origin, whenPermitted } from "./call.ts";
import { collect, exchange, faultOf, type RawAnswer, UpstreamFault } from "./send.ts";
import { jsonContentType, REPEATED_SIGNATURE } from "./verdict.ts";

/** The destination of an answer that is not cached. */
export interface StreamSink {
  readonly response: ServerResponse;
  /** Begins the response with these headers about its content. */
  readonly start: (headers: Readonly<Record<string, string>>) => void;
  /** Reports bytes of the body. */
  readonly passed: (bytes: number) => void;
  /** Closes the connection, because the begun response cannot be completed. */
  readonly cut: (problem: Problem) => void;
}

export type PassThrough = ReturnType<typeof createPassThrough>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createPassThrough(options: CallOptions) {
  const { clock, upstream } = options;
  const proxyTo = memoize<RequestHandler, Origin>(createProxy);

  /**
   * Streams the upstream's answer to the caller. Rejects with a `Problem` if there is no usable answer; then nothing has been
   * sent to the caller.
   */
  return async function passThrough(
    question: Question<AnyQuery>,
    message: IncomingMessage,
    sink: StreamSink,
  ): Promise<void> {
    const wanted = { question, cause: "bypass", waiting: oneWaiter(question.request) } as const;
    await whenPermitted(wanted, options, (call, permit) => {
      const begun = Promise.withResolvers<void>();
      const passing = { question, sink, call, permit, begun, bytes: 0 };
      // The middleware hands its request over when it has a socket. Before that, a tunnel through an HTTP proxy may fail or hang.
      const { promise: outgoing, resolve, reject } = Promise.withResolvers<ClientRequest>();
      const stop = clock.after(upstream.connectTimeoutMs, () => reject(new UpstreamFault("connect-timeout")));
      const proxied = proxiedMessage(message, call, (request) => {
        resolve(request);
        outgoing.catch(() => request.destroy());
      });
      const proxying = proxyTo(call.origin)(proxied, withoutDestroy(sink.response));
      proxying.catch((error: Error) => reject(faultOf(error, false)));
      void pass(outgoing.finally(stop), passing, options).then(begun.resolve, begun.reject);
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
    // The default plugins print URLs, which are signed.
    ejectPlugins: true,
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
  readonly question: Question<AnyQuery>;
  readonly sink: StreamSink;
  readonly call: Call;
  readonly permit: SendPermit;
  /** Resolves when the response has begun. Rejects if the call fails before that. */
  readonly begun: PromiseWithResolvers<void>;
  /** The bytes of the body so far. */
  bytes: number;
}

/** Sends the request, and streams its answer. Rejects with a `Problem` if there is no whole and usable answer. */
async function pass(outgoing: Promise<ClientRequest>, passing: Passing, options: CallOptions): Promise<void> {
  const { sink, call, permit, begun } = passing;
  const { request } = passing.question;
  const { clock, upstream } = options;
  const ended = new AbortController();
  const endAfter = (ms: number, kind: UpstreamFaultKind): (() => void) =>
    clock.after(ms, () => ended.abort(new UpstreamFault(kind)));
  const stopTotal = endAfter(upstream.totalTimeoutMs, "total-timeout");
  // The caller waits until then for the beginning of the response.
  const stopDeadline = endAfter(request.deadlineAt - clock.now(), "given-up");
  begun.promise.then(stopDeadline, stopDeadline);
  const until = AbortSignal.any([ended.signal, request.gone()]);
  let refused: RawAnswer | undefined;
  try {
    const timing = { ...permit, until, limits: upstream, clock };
    refused = await exchange(await outgoing, timing, async (answer, headAt, onChunk) => {
      if (answer.statusCode === 200) return await stream(answer, headAt, onChunk, passing, options);
      return await collect(answer, headAt, upstream.maxBodyBytes, onChunk);
    }).finally(stopTotal);
  } catch (error) {
    const { problem } = call.failed(error, passing.bytes);
    if (sink.response.headersSent) sink.cut(problem);
    throw problem;
  }
  if (refused !== undefined) throw call.answered(refused).problem;
  call.over(200, passing.bytes);
}

/** Streams an answer with status 200. */
async function stream(
  answer: IncomingMessage,
  headAt: number,
  onChunk: () => void,
  passing: Passing,
  { upstream, clock }: CallOptions,
): Promise<undefined> {
  const { question, sink, call, begun } = passing;
  const { response } = sink;
  const { headers } = answer;
  const { resource } = question.query;
  // The call asks for no content coding. If the answer has one nevertheless, it is decoded as a whole.
  const isEncoded = (headers["content-encoding"] ?? "identity") !== "identity";
  // A caller of HTTP/1.0 would take a cut body without a length for a whole one.
  const isWhole = isEncoded || (response.req.httpVersion === "1.0" && !headers["content-length"]);
  const body = isWhole ? [(await collect(answer, headAt, upstream.maxBodyBytes, onChunk)).body] : answer;

  function begin(first: Buffer): void {
    if (!beginsLikeAnswer(first, resource))
      throw new UpstreamFault("malformed", "the body does not begin like an answer");
    call.begun(200, undefined, headAt);
    sink.start(passedHeaders(headers, resource, isEncoded, clock.now()));
    begun.resolve();
  }
  let held = Buffer.alloc(0);
  for await (const chunk of body) {
    onChunk();
    const unsent = Buffer.concat([held, chunk]);
    passing.bytes += chunk.length;
    if (passing.bytes > upstream.maxBodyBytes) throw new UpstreamFault("too-large");
    if (call.signature.some((part) => unsent.includes(part)))
      throw new UpstreamFault("malformed", REPEATED_SIGNATURE);
    const passed = unsent.subarray(0, Math.max(0, unsent.length - HELD_BYTES));
    held = unsent.subarray(passed.length);
    if (passed.length === 0) continue;
    if (!response.headersSent) begin(passed);
    // The response keeps what the caller has not read yet. So a slow caller does not slow down the upstream. The response ends
    // when the body has arrived. From then on, the limits for unread responses apply.
    response.write(passed);
    sink.passed(passed.length);
  }
  if (!response.headersSent) {
    const { problem } = call.judge({ status: 200, headers, headAt, body: held });
    // An answer of another shape is an answer, too.
    call.begun(200, undefined, headAt);
    if (problem !== undefined) throw new UpstreamFault("malformed", problem.message);
    begin(held);
  }
  sink.passed(held.length);
  response.end(held);
}

/**
 * The last bytes of a stream are held back. So a short body is judged as a whole before anything of it is sent, and no part of a
 * signature gets through. Of a longer body only the beginning is judged. Most answers are shorter.
 */
const HELD_BYTES = 64 * 1024;

/** JSON answers are objects (interface, section 2.7), and thumbnails are JPEGs. */
function beginsLikeAnswer(bytes: Buffer, resource: Resource): boolean {
  return resource === "images" ? bytes[0] === 0xff : /^\s*\{/.test(bytes.toString("utf8", 0, 64));
}

/** @returns the upstream's headers about the content */
function passedHeaders(
  headers: IncomingHttpHeaders,
  resource: Resource,
  isEncoded: boolean,
  now: number,
): Record<string, string> {
  const { etag, lastModified } = validatorsIn(headers, now);
  const { "content-length": length, "content-type": type } = headers;
  return {
    "content-type": resource === "images" ? "image/jpeg" : jsonContentType(type),
    // The caller gets the decoded body, so length and entity tag of an encoded one are not valid (RFC 9110, section 8.8.3.3).
    ...(!isEncoded && length !== undefined && { "content-length": length }),
    ...(!isEncoded && etag !== undefined && { etag }),
    ...(lastModified !== undefined && { "last-modified": lastModified }),
  };
}

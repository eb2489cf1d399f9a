/**
 * One HTTP request to the upstream: a GET over a keep-alive connection, with four time limits and a size limit. The result
 * is a complete answer or a named fault. It does not retry and does not follow redirects.
 */
import http from "node:http";
import https from "node:https";
import type { Socket } from "node:net";
import { gunzipSync } from "node:zlib";

import type { Config } from "../config/config.ts";
import type { UpstreamFaultKind } from "../telemetry/events.ts";
import type { Clock } from "../process/clock.ts";
import { type Agent, resetCall } from "./connections.ts";

/** Thrown if a request got no complete answer. */
export class UpstreamFault extends Error {
  readonly kind: UpstreamFaultKind;
  constructor(kind: UpstreamFaultKind, why: string = kind) {
    super(why);
    this.name = "UpstreamFault";
    this.kind = kind;
  }
}

/** A complete answer. Header names are in lower case. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
  /** When the head arrived, by the monotonic clock. */
  readonly headAt: number;
}

type Limits = Pick<
  Config["upstream"],
  "connectTimeoutMs" | "headerTimeoutMs" | "bodyTimeoutMs" | "maxBodyBytes"
>;

/** When a request is sent and ended. */
interface Timing {
  /** Ends the exchange. Its reason is an `UpstreamFault`, or the caller hung up. */
  readonly until: AbortSignal;
  /** The latest instant to send the request, by the monotonic clock. */
  readonly sendBy?: number | undefined;
  readonly limits: Limits;
  readonly clock: Clock;
}

/**
 * One request and its answer, with one time limit at a time. The request is sent in the tick in which its connection is ready,
 * if its permit is still valid. A reused connection is ready immediately. Nothing is sent before.
 * Rejects with an `UpstreamFault` or an error of `read`. The connection is then reset, unless the whole answer was read.
 * @param read reads the body, and calls `onChunk` at each part. That starts `bodyTimeoutMs` again. `headAt`: when the head arrived,
 *   by the monotonic clock
 */
export function exchange<T>(
  outgoing: http.ClientRequest,
  { until, sendBy = Number.POSITIVE_INFINITY, limits, clock }: Timing,
  read: (answer: http.IncomingMessage, headAt: number, onChunk: () => void) => Promise<T>,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  let answer: http.IncomingMessage | undefined;
  let cancelLimit: () => void = () => undefined;
  function fail(error: unknown): void {
    reject(error);
    // After the end of the answer, the connection may already belong to another call.
    if (answer?.readableEnded !== true) resetCall(outgoing);
  }
  function limit(ms: number, kind: UpstreamFaultKind): void {
    cancelLimit();
    cancelLimit = clock.after(ms, () => fail(new UpstreamFault(kind)));
  }
  function send(): void {
    limit(limits.headerTimeoutMs, "header-timeout");
    if (clock.monotonic() <= sendBy) outgoing.end();
    else fail(new UpstreamFault("stale-connection", "the permit expired before the connection was ready"));
  }
  function onSocket(socket: Socket): void {
    if (socket.connecting) socket.once(outgoing.protocol === "https:" ? "secureConnect" : "connect", send);
    else send();
  }
  function onAbort(): void {
    const { reason } = until;
    fail(reason instanceof UpstreamFault ? reason : new UpstreamFault("given-up", "the caller hung up"));
  }
  outgoing.on("error", (error) => {
    // Once the head has arrived, the answer's own stream reports that it is cut off.
    if (answer === undefined) fail(faultOf(error, outgoing.reusedSocket));
  });
  outgoing.once("response", (response) => {
    answer = response;
    const waitForMore = (): void => limit(limits.bodyTimeoutMs, "body-timeout");
    waitForMore();
    read(response, clock.monotonic(), waitForMore).then(resolve, (error: unknown) =>
      fail(error === response.errored ? new UpstreamFault("cut-body") : error),
    );
  });
  until.addEventListener("abort", onAbort, { once: true });
  limit(limits.connectTimeoutMs, "connect-timeout");
  if (until.aborted) onAbort();
  else if (outgoing.socket) onSocket(outgoing.socket);
  else outgoing.once("socket", onSocket);
  return promise.finally(() => {
    cancelLimit();
    until.removeEventListener("abort", onAbort);
  });
}

/** Makes one request, and collects its answer. Rejects only with an `UpstreamFault`. */
export async function fetchAnswer(
  url: string,
  headers: Readonly<Record<string, string>>,
  agent: Agent,
  timing: Timing,
): Promise<RawAnswer> {
  const outgoing = (url.startsWith("https:") ? https : http).request(url, {
    agent,
    headers: { ...headers, "accept-encoding": "gzip" },
    // By default Node keeps only the first of repeated lines such as Expires.
    joinDuplicateHeaders: true,
  });
  return await exchange(outgoing, timing, (answer, headAt, onChunk) =>
    collect(answer, headAt, timing.limits.maxBodyBytes, onChunk),
  );
}

/**
 * @returns the complete answer, decoded; for an error without a whole body, status and headers. Rejects with `cut-body`,
 *   `too-large` or `bad-encoding`. If the connection breaks, rejects with its error, which `exchange` replaces by `cut-body`.
 */
export async function collect(
  response: http.IncomingMessage,
  headAt: number,
  maxBytes: number,
  onChunk: () => void,
): Promise<RawAnswer> {
  const { statusCode: status = 0, headers } = response;
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response) {
      onChunk();
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxBytes) throw new UpstreamFault("too-large");
    }
    return decodedAnswer({ status, headers, headAt, body: Buffer.concat(chunks, bytes) }, maxBytes);
  } catch (error) {
    if (status === 200) throw error;
    return { status, headers, headAt, body: Buffer.alloc(0) };
  }
}

/** This process, or this machine, cannot open another connection. The upstream knows nothing of it. */
const NO_DESCRIPTOR = new Set(["EMFILE", "ENFILE"]);
const CLOSED = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);

/**
 * Names a connection error. Only the error's code is kept, because its message may contain the address.
 * @param reusedSocket whether the connection had served another request before
 */
export function faultOf(error: Error, reusedSocket: boolean): UpstreamFault {
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name;
  if (code.startsWith("HPE_")) return new UpstreamFault("malformed", code);
  if (NO_DESCRIPTOR.has(code)) return new UpstreamFault("no-descriptor", code);
  // The upstream closed an idle connection just as the gateway used it. The request can be sent again.
  if (CLOSED.has(code)) return new UpstreamFault(reusedSocket ? "stale-connection" : "reset", code);
  // OpenSSL's codes for refused certificates are clear, such as CERT_HAS_EXPIRED.
  return new UpstreamFault("unreachable", code);
}

/** JSON lists shrink to about an eighth. Unzipping into one chunk takes half as long as into chunks of 16 KiB. */
const USUAL_RATIO = 10;
const MIN_CHUNK = 1_024;

/** Decodes the body of an answer. At once, because a thread takes three times as much CPU. @throws {UpstreamFault} */
function decodedAnswer(answer: RawAnswer, maxOutputLength: number): RawAnswer {
  const { headers, body } = answer;
  const coding = headers["content-encoding"]?.trim().toLowerCase() ?? "";
  if (coding === "" || coding === "identity") return answer;
  try {
    if (coding !== "gzip" && coding !== "x-gzip") throw new Error("the content coding is not gzip");
    const chunkSize = Math.max(MIN_CHUNK, Math.min(body.length * USUAL_RATIO, maxOutputLength));
    return { ...answer, body: gunzipSync(body, { maxOutputLength, chunkSize }) };
  } catch (error) {
    const isTooLarge = error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";
    throw new UpstreamFault(isTooLarge ? "too-large" : "bad-encoding", "the body cannot be decoded");
  }
}

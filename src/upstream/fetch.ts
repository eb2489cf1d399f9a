/**
 * One HTTP request to the upstream: a GET over a keep-alive connection, with four time limits and a size limit. The result
 * is a complete answer or a named fault. It does not retry and does not follow redirects.
 */
import http from "node:http";
import https from "node:https";
import type { Socket } from "node:net";
import { promisify } from "node:util";
import { gunzip, gunzipSync } from "node:zlib";

import type { UpstreamFaultKind } from "../telemetry/events.ts";
import type { Clock } from "../process/clock.ts";
import { tlsReason } from "../process/tls.ts";
import { resetCall } from "./agent.ts";

/** Thrown if a request got no complete answer. */
export class UpstreamFault extends Error {
  readonly kind: UpstreamFaultKind;
  constructor(kind: UpstreamFaultKind, why: string) {
    super(why);
    this.name = "UpstreamFault";
    this.kind = kind;
  }
}

/** A complete answer, decoded. Header names are in lower case. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
  /** When the head arrived, by the monotonic clock. */
  readonly headAt: number;
}

export interface FetchLimits {
  readonly clock: Clock;
  /** The limit from the start until the connection is open, including TLS. */
  readonly connectTimeoutMs: number;
  /** The limit from then until the response headers have arrived. */
  readonly headerTimeoutMs: number;
  /** The limit between two pieces of the body. */
  readonly bodyTimeoutMs: number;
  /** The largest body, encoded or decoded. */
  readonly maxBodyBytes: number;
}

interface OutgoingRequest {
  /** The address with the signed path and query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Ends the request with `total-timeout`. */
  readonly timedOut: AbortSignal;
  /** The latest instant to send the request, by the monotonic clock. */
  readonly sendBy?: number | undefined;
}

export type Fetch = (request: OutgoingRequest) => Promise<RawAnswer>;

const unzipInThread = promisify(gunzip);
/** Bodies up to this size are unzipped at once. A thread takes three times as much CPU, and longer. */
const MOST_AT_ONCE = 64 * 1024;

/** @returns a function that makes one request. It rejects only with an `UpstreamFault`. */
export function createFetch(agent: http.Agent | https.Agent, limits: FetchLimits): Fetch {
  return async (request) => {
    const { response, received, headAt } = await exchange(request, agent, limits);
    return await wholeAnswer(response, received, headAt, limits.maxBodyBytes);
  };
}

/** @returns the answer with its body decoded; rejects with an `UpstreamFault` */
export async function wholeAnswer(
  { statusCode: status = 0, headers }: Pick<http.IncomingMessage, "statusCode" | "headers">,
  received: Buffer,
  headAt: number,
  maxBodyBytes: number,
): Promise<RawAnswer> {
  const body = decoded(received, headers["content-encoding"], maxBodyBytes);
  // An error answer with an undecodable body still has its status and headers.
  return { status, headers, headAt, body: await (status === 200 ? body : body.catch(() => Buffer.alloc(0))) };
}

interface Received {
  readonly response: http.IncomingMessage;
  readonly received: Buffer;
  readonly headAt: number;
}

function exchange(
  request: OutgoingRequest,
  agent: http.Agent | https.Agent,
  limits: FetchLimits,
): Promise<Received> {
  return new Promise((resolve, reject) => {
    const { clock } = limits;
    const client = request.url.startsWith("https:") ? https : http;
    const outgoing = client.request(request.url, {
      agent,
      headers: { ...request.headers, "accept-encoding": "gzip" },
      // By default Node keeps only the first of repeated lines such as Expires.
      joinDuplicateHeaders: true,
    });

    let settled = false;
    let cancelTimer = clock.after(limits.connectTimeoutMs, () => fail("connect-timeout"));
    const onTotal = (): void => fail("total-timeout");
    request.timedOut.addEventListener("abort", onTotal, { once: true });

    function wait(limitMs: number, kind: UpstreamFaultKind): void {
      cancelTimer();
      if (!settled) cancelTimer = clock.after(limitMs, () => fail(kind));
    }
    function settle(): void {
      settled = true;
      cancelTimer();
      request.timedOut.removeEventListener("abort", onTotal);
    }
    function failWith(fault: UpstreamFault): void {
      settle();
      reject(fault);
      resetCall(outgoing);
    }
    function fail(kind: UpstreamFaultKind): void {
      failWith(new UpstreamFault(kind, kind));
    }

    outgoing.on("error", (error) => failWith(faultOf(error, outgoing.reusedSocket)));
    sendWhenConnected(outgoing, { sendBy: request.sendBy, clock }, failWith, () =>
      wait(limits.headerTimeoutMs, "header-timeout"),
    );
    outgoing.on("response", (response) => {
      const headAt = clock.monotonic();
      const waitForMore = (): void => wait(limits.bodyTimeoutMs, "body-timeout");
      waitForMore();
      collect(response, limits.maxBodyBytes, waitForMore).then((received) => {
        settle();
        return resolve({ response, received, headAt });
      }, failWith);
    });
    refuseUpgrade(outgoing, failWith);
    if (request.timedOut.aborted) onTotal();
  });
}

/**
 * Sends a request in the tick in which its connection is ready, if its permit is still valid. A reused connection is ready
 * immediately. Nothing is sent before `end`.
 * @param permit.sendBy the latest instant, by the monotonic clock
 * @param onReady called when the connection is ready
 */
export function sendWhenConnected(
  outgoing: http.ClientRequest,
  { sendBy = Number.POSITIVE_INFINITY, clock }: { sendBy?: number | undefined; clock: Clock },
  failWith: (fault: UpstreamFault) => void,
  onReady: () => void = () => undefined,
): void {
  const send = (): void => {
    onReady();
    if (clock.monotonic() <= sendBy) outgoing.end();
    else
      failWith(new UpstreamFault("stale-connection", "the permit expired before the connection was ready"));
  };
  const onSocket = (socket: Socket): void => {
    if (!socket.connecting) return send();
    socket.once(outgoing.protocol === "https:" ? "secureConnect" : "connect", send);
  };
  if (outgoing.socket) onSocket(outgoing.socket);
  else outgoing.once("socket", onSocket);
}

/** Without this, Node would close the connection without an event, and the request would wait for a timeout. */
function refuseUpgrade(outgoing: http.ClientRequest, failWith: (fault: UpstreamFault) => void): void {
  outgoing.on("upgrade", (_response, socket) => {
    socket.destroy();
    failWith(new UpstreamFault("malformed", "the upstream switched to another protocol"));
  });
}

/** @returns the complete body, still encoded; rejects with `cut-body` or `too-large` */
export function collect(
  response: http.IncomingMessage,
  maxBytes: number,
  onChunk: () => void,
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const failIncomplete = (): void => reject(new UpstreamFault("cut-body", "cut-body"));
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on("data", (chunk: Buffer) => {
    onChunk();
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > maxBytes) reject(new UpstreamFault("too-large", "too-large"));
  });
  response.on("error", failIncomplete);
  response.on("end", () => {
    // A body without its last chunk also ends with `end`. Only `complete` shows the difference.
    if (response.complete) resolve(Buffer.concat(chunks, bytes));
    else failIncomplete();
  });
  return promise;
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
  if (!CLOSED.has(code)) return new UpstreamFault("unreachable", explained(code));
  // The upstream closed an idle connection just as the gateway used it. The request can be sent again.
  return new UpstreamFault(reusedSocket ? "stale-connection" : "reset", code);
}

/** Adds plain words to OpenSSL's error codes, because operators must fix a refused certificate. */
function explained(code: string): string {
  const reason = tlsReason(code);
  return reason === undefined ? code : `${reason} (${code})`;
}

async function decoded(received: Buffer, coding: string | undefined, maxBytes: number): Promise<Buffer> {
  switch (coding?.trim().toLowerCase() ?? "identity") {
    case "identity":
    case "":
      return received;
    case "gzip":
    case "x-gzip":
      return unzipped(received, maxBytes);
    default:
      throw new UpstreamFault("bad-encoding", "the content coding is not gzip");
  }
}

/** The length of `ISIZE`, the last field of a gzip member, and the largest ratio that deflate reaches. */
const ISIZE_BYTES = 4;
const LARGEST_RATIO = 1_032;
const SMALLEST_CHUNK = 64;

/**
 * @returns the length of the decoded body according to `ISIZE` (RFC 1952, section 2.3.1), limited to what is possible. One
 *   chunk of that size takes half as long as chunks of 16 KiB. Behind a second member or padding, the length is too small, and
 *   very small chunks take a hundred times as long. So it is at least the encoded length.
 */
function unzippedBytes(zipped: Buffer, maxBytes: number): number {
  if (zipped.length < ISIZE_BYTES) return SMALLEST_CHUNK;
  const named = zipped.readUInt32LE(zipped.length - ISIZE_BYTES);
  return Math.max(zipped.length, SMALLEST_CHUNK, Math.min(named, maxBytes, zipped.length * LARGEST_RATIO));
}

async function unzipped(received: Buffer, maxBytes: number): Promise<Buffer> {
  try {
    const options = { maxOutputLength: maxBytes, chunkSize: unzippedBytes(received, maxBytes) + 1 };
    return received.length <= MOST_AT_ONCE
      ? gunzipSync(received, options)
      : await unzipInThread(received, options);
  } catch (error) {
    const tooLarge = error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";
    throw new UpstreamFault(tooLarge ? "too-large" : "bad-encoding", "the gzip body cannot be decoded");
  }
}

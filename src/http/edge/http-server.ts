/**
 * The HTTP server of both ports. It is Node's own server with limits for times, sizes and numbers. It answers with a
 * problem where Node alone would close the connection or send an empty response.
 */
import { createServer, STATUS_CODES, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { SecureContextOptions } from "node:tls";

import type { Config } from "../../config/config.ts";
import type { Constants } from "../../config/timeouts-and-limits.ts";
import type { CertificatePair } from "../../config/secrets/read-secret-files.ts";
import type { Context } from "../../context.ts";
import { Problem } from "../../errors.ts";
import { atMostEvery, type Clock } from "../../process/clock.ts";
import type { Random } from "../../process/random.ts";
import type { HttpServer } from "../../process/listen.ts";
import { isSent, limitConnections, limitUnsent } from "./connections.ts";
import { limitSocketBuffers } from "./socket-buffers.ts";
import { limitPipelining } from "./pipelining.ts";
import { problemResponse } from "../problem-response.ts";
import { connectionWith, withEncodedUrl } from "./unencoded-urls.ts";
import { parserProblem } from "./request-validation.ts";

type ServerLimits = Constants["server"] & Pick<Config["server"], "maxConnections">;

export interface HttpServerOptions extends Pick<Context, "clock" | "observer"> {
  readonly random: Pick<Random, "requestId">;
  readonly limits: ServerLimits;
  /** Without it, the server uses plain HTTP. */
  readonly certificate?: CertificatePair | null;
  readonly serve: (message: IncomingMessage, response: ServerResponse) => void;
  /** Paths that are served even when all connections are taken. */
  readonly healthChecks?: readonly string[];
  /** Ignores request content. A request with content is then the last one on its connection. */
  readonly ignoreContent?: boolean;
}

/** What is known of a connection after its latest request. */
interface Connection {
  /** The response to it. Responses to pipelined requests wait for each other. */
  readonly latest: ServerResponse;
  /** Later requests on this connection get no answer. */
  readonly isLast: boolean;
}

type Connections = WeakMap<Duplex, Connection>;

/** The longest time between two checks of the time limits. */
const CHECK_MS = 1_000;

/** @returns the server, not yet listening */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { limits, certificate } = options;
  const settings = {
    maxHeaderSize: limits.maxUrlBytes * 2 + limits.maxHeaderBytes,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_MS, limits.headersTimeoutMs),
    // Overrides the option --insecure-http-parser of the process.
    insecureHTTPParser: false,
    // Node would answer a missing Host with an empty 400. `checkHead` refuses it with a problem.
    requireHostHeader: false,
  };
  const server = certificate
    ? createTlsServer({ ...settings, ...tlsWith(certificate), handshakeTimeout: limits.headersTimeoutMs })
    : createServer(settings);
  // Never listens. It parses requests again whose URL was encoded.
  const again = createServer(settings);
  const connections: Connections = new WeakMap();
  const listener = createListener(server, connections, options);
  for (const each of [server, again]) {
    // Node silently drops headers over this number. One more is allowed here, so that `checkHead` notices.
    each.maxHeadersCount = limits.maxHeaders + 1;
    each.on("request", listener);
    // Node would answer both by itself. `checkHead` refuses them with a problem.
    each.on("checkContinue", listener);
    each.on("checkExpectation", listener);
    refuseNonRequests(each, again, connections, options);
  }
  return server;
}

/** New connections get the new certificate. */
export function renewCertificate(server: HttpServer, certificate: CertificatePair | null): void {
  if (certificate && "setSecureContext" in server) server.setSecureContext(tlsWith(certificate));
}

function tlsWith({ cert, key }: CertificatePair): SecureContextOptions {
  return { cert, key: key.reveal(), minVersion: "TLSv1.2" };
}

/** @returns the handler for all requests. It also closes connections as HTTP and the limits require. */
function createListener(
  server: HttpServer,
  connections: Connections,
  { limits, serve, healthChecks = [], ignoreContent = false, clock, random, observer }: HttpServerOptions,
): HttpServerOptions["serve"] {
  const { warn } = observer;
  const onFull = atMostEvery(clock.now, (times) =>
    warn(
      "All connections are taken (server.maxConnections). " +
        "Connections without a complete request are closed, and further connections are refused.",
      { times },
    ),
  );
  const { isOneTooMany, reset } = limitConnections(server, limits.maxConnections, clock.now, onFull);
  const onSlow = "Callers read too slowly: connections with the most unread bytes were closed.";
  limitSocketBuffers(server, clock.after, (connections) => warn(onSlow, { connections }));
  const watchUnsent = limitUnsent(limits.writeTimeoutMs, reset);
  const handle = limitPipelining((message, response) => {
    serve(message, response);
    if (isSent(response) && server.listening) return;
    // A connection that becomes idle after the server has stopped accepting would keep the server from closing.
    response.once("finish", () => {
      if (!server.listening) setImmediate(() => server.closeIdleConnections());
    });
    watchUnsent(response);
  });

  return (message, response) => {
    const { socket } = message;
    const known = connections.get(socket);
    // Requests behind the last one must not be answered (RFC 9112, section 9.6).
    if (known?.isLast) return;
    const isTooMany = known === undefined && isOneTooMany(socket);
    // The connection of an encoded URL, which is no `Socket`, has no other requests.
    const isAlone = !(socket instanceof Socket);
    const isLast = isTooMany || isAlone || offersUpgrade(message) || (ignoreContent && hasContent(message));
    connections.set(socket, { latest: response, isLast });
    if (isLast) response.shouldKeepAlive = false;
    if (isTooMany && !healthChecks.includes(message.url ?? "")) refuse(response, limits, random.requestId());
    else handle(message, response);
  };
}

/**
 * Refuses, on the bare socket, input that Node cannot parse as a request, and `CONNECT`.
 * @param again parses a request that Node can parse now
 */
function refuseNonRequests(
  server: HttpServer,
  again: HttpServer,
  connections: Connections,
  { limits, ignoreContent, clock, random }: HttpServerOptions,
): void {
  /** Connections that are not read any more. Further bytes on them cause further errors. */
  const refused = new WeakSet<Duplex>();
  function refuseRaw(socket: Duplex, problem: Problem): void {
    if (refused.has(socket)) return;
    refused.add(socket);
    // Node has removed its own listener from the socket of a CONNECT. A reset without a listener ends the process.
    socket.on("error", () => socket.destroy());
    refuseOn(socket, connections.get(socket)?.latest, problemBytes(problem, random.requestId()), clock);
  }
  server.on("clientError", (error, socket) => {
    const latest = connections.get(socket)?.latest;
    const head = latest?.writableFinished === false ? undefined : withEncodedUrl(error);
    if (head !== undefined && socket instanceof Socket && !refused.has(socket)) {
      refused.add(socket);
      return void again.emit("connection", connectionWith(head, socket));
    }
    const problem = parserProblem(error, limits);
    // The open response waits for request content that does not arrive, so the refusal replaces that response.
    if (problem.code === "request-timeout" && latest?.req.complete === false && !ignoreContent) {
      if (latest.headersSent) return void socket.destroy();
      connections.delete(socket);
    }
    refuseRaw(socket, problem);
  });
  server.on("connect", (_message, socket) => {
    const detail = "The gateway does not support CONNECT.";
    refuseRaw(socket, new Problem("method-not-allowed", { detail, headers: { Allow: "GET, HEAD" } }));
  });
}

function hasContent({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/**
 * Whether a request offers to switch to another protocol. The offer is ignored (RFC 9110, section 7.8). But Node drops
 * the requests that follow it in the same packet, so on a connection that stays open later responses would belong to
 * the wrong requests.
 */
function offersUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && /(?:^|,)\s*upgrade\s*(?:,|$)/i.test(headers.connection ?? "");
}

function refuse(response: ServerResponse, { maxConnections }: ServerLimits, id: string): void {
  const detail = `At most ${maxConnections} connections may be open at once.`;
  const problem = new Problem("too-many-connections", { detail, retryAfterSeconds: 1 });
  const { status, headers, body } = problemResponse(problem, id, false);
  response.writeHead(status, headers).end(body);
}

/** @returns a complete HTTP/1.1 response, head and body */
function problemBytes(problem: Problem, id: string): Buffer {
  const { status, headers, body } = problemResponse(problem, id, false);
  const lines = Object.entries({ ...headers, Connection: "close" }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, ...lines, "", ""].join("\r\n");
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}

/** How long a refused caller has to close its side. Until then its bytes are read and dropped. */
const LINGER_MS = 1_000;

/** Writes a refusal to the bare socket and closes it. A response in progress is finished first. */
function refuseOn(socket: Duplex, earlier: ServerResponse | undefined, refusal: Buffer, clock: Clock): void {
  if (earlier !== undefined && !earlier.writableFinished && !earlier.destroyed)
    return void earlier.once("close", () => refuseOn(socket, undefined, refusal, clock));
  if (!socket.writable) return void socket.destroy();
  socket.resume();
  socket.once(
    "close",
    clock.after(LINGER_MS, () => socket.destroy()),
  );
  socket.end(refusal);
}

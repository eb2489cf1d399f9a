/**
 * An HTTP server within limits: of time, size and number. What Node's parser refuses is refused in our words.
 */
import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Duplex } from "node:stream";

import { Problem } from "../errors.ts";
import { limitConnections, type ConnectionsOptions } from "./connections.ts";
import { parserProblem, type ParserLimits } from "./parser-problem.ts";
import { problemMessage } from "./problem-message.ts";
import { seldom } from "./seldom.ts";

/** Times in milliseconds. */
interface ServerLimits extends ParserLimits {
  readonly maxConnections: number;
  /** How long a connection is kept without a request. */
  readonly keepAliveTimeoutMs: number;
  /** Longest time in which a caller takes nothing of its answer. */
  readonly writeTimeoutMs: number;
}

export interface HttpServerOptions extends Pick<ConnectionsOptions, "after"> {
  readonly limits: ServerLimits;
  readonly serve: (message: IncomingMessage, response: ServerResponse) => void;
  /** Content is of no use to anybody here: a request that has some is the last on its connection. */
  readonly withoutContent?: true;
  readonly requestId: () => string;
  readonly now: () => number;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}

/** How often time limits are checked, at the least. */
const CHECK_MS = 1_000;
const WARN_EVERY_MS = 60_000;
/** Most requests under way on one connection; nobody who reads the answers sends so many ahead. */
const MOST_UNDER_WAY = 100;

/** @returns the server, not yet listening. */
export function createHttpServer(options: HttpServerOptions): Server {
  const { limits } = options;
  const server = createServer({
    maxHeaderSize: limits.maxUrlBytes * 2 + limits.maxHeaderBytes,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_MS, limits.headersTimeoutMs),
    // Also where the process was started with an option that says otherwise.
    insecureHTTPParser: false,
    // Node would refuse a missing Host with an empty body; the check of the head refuses it with a problem.
    requireHostHeader: false,
  });
  // Node drops headers beyond this number without a word; one more is read, so that it can be told.
  server.maxHeadersCount = limits.maxHeaders + 1;

  const talks = new WeakMap<Duplex, Talk>();
  const listener = createListener(server, talks, options);
  server.on("request", listener);
  // Node would answer both by itself; the check of the head refuses them with a problem.
  server.on("checkContinue", listener);
  server.on("checkExpectation", listener);
  refuseNonRequests(server, talks, options);
  return server;
}

/** @returns what serves the requests that may be served, each connection's apart */
function createListener(
  server: Server,
  talks: WeakMap<Duplex, Talk>,
  { limits, serve, withoutContent, after, requestId, now, warn }: HttpServerOptions,
): (message: IncomingMessage, response: ServerResponse) => void {
  const isBeyond = limitConnections(server, {
    maxConnections: limits.maxConnections,
    after,
    now,
    onCrowded: seldom(WARN_EVERY_MS, now, (times) =>
      warn(
        "All connections are taken (server.maxConnections): silent ones are closed, and further ones refused.",
        { times },
      ),
    ),
  });
  return (message, response) => {
    const { socket } = message;
    const talk = talks.get(socket) ?? { underWay: 0, message, latest: response, isLast: false };
    talks.set(socket, talk);
    // Nobody may answer what comes after the last request (RFC 9112, section 9.6): the connection is about to end.
    if (talk.isLast) return;
    talk.message = message;
    talk.latest = response;
    talk.underWay++;
    talk.isLast =
      isBeyond(socket) || offersUpgrade(message) || (withoutContent === true && hasContent(message));
    response.once("close", () => talk.underWay--);
    if (talk.underWay > MOST_UNDER_WAY) return void socket.destroy();
    if (talk.isLast) response.shouldKeepAlive = false;
    // A connection that becomes idle after the server has stopped accepting would keep it from closing.
    response.once("finish", () => {
      if (!server.listening) setImmediate(() => server.closeIdleConnections());
    });
    limitWriting(message, response, limits.writeTimeoutMs);
    if (isBeyond(socket)) refuse(response, limits, requestId());
    else serve(message, response);
  };
}

/** Refuses, on the bare connection, what Node's parser takes for no request, or for none to be answered. */
function refuseNonRequests(
  server: Server,
  talks: WeakMap<Duplex, Talk>,
  { limits, withoutContent, after, requestId }: HttpServerOptions,
): void {
  const refused = new WeakSet<Duplex>();
  const refuseRaw = (socket: Duplex, problem: Problem): void => {
    // Whatever else comes is in error too, and was to be expected.
    if (refused.has(socket)) return;
    refused.add(socket);
    refuseOn(socket, talks.get(socket)?.latest, problemBytes(problem, requestId()), after);
  };
  server.on("clientError", (error, socket) => {
    const talk = talks.get(socket);
    const problem = parserProblem(error, limits);
    // The answer under way waits for content that does not come: it is that request which is refused.
    if (problem.code === "request-timeout" && talk?.message.complete === false && !withoutContent) {
      if (talk.latest.headersSent) return void socket.destroy();
      talks.delete(socket);
    }
    refuseRaw(socket, problem);
  });
  server.on("connect", (_message, socket) =>
    refuseRaw(
      socket,
      new Problem("method-not-allowed", {
        detail: "This server opens no tunnels.",
        headers: { Allow: "GET, HEAD" },
      }),
    ),
  );
}

/** What is known of a connection. */
interface Talk {
  /** Requests without a whole answer. */
  underWay: number;
  /** The latest of them. */
  message: IncomingMessage;
  /** The answer to it; pipelined ones wait for one another. */
  latest: ServerResponse;
  /** No request after the latest is read. */
  isLast: boolean;
}

function hasContent({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/**
 * Whether a request offers to go on in another protocol. The offer is ignored (RFC 9110, section 7.8), but Node drops
 * the requests that follow it in the same packet: a connection that stayed open would give later answers to the wrong
 * requests.
 */
function offersUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && /(?:^|,)\s*upgrade\s*(?:,|$)/i.test(headers.connection ?? "");
}

/** A caller that does not take its answer holds a connection, and memory: from its end on, silence is limited. */
function limitWriting({ socket }: IncomingMessage, response: ServerResponse, timeoutMs: number): void {
  const limit = (): void => {
    if (response.writableEnded && response.socket !== null) socket.setTimeout(timeoutMs);
  };
  response.once("prefinish", limit);
  // One that was ended while an earlier answer had the connection.
  response.once("socket", limit);
  // Before Node's own listener: then it is the silence until the next request that is limited, by Node.
  response.prependOnceListener("finish", () => socket.setTimeout(0));
}

function refuse(response: ServerResponse, { maxConnections }: ServerLimits, id: string): void {
  const detail = `There may be ${maxConnections} at once.`;
  const problem = new Problem("too-many-connections", { detail, retryAfterSeconds: 1 });
  const { status, headers, body } = problemMessage(problem, id, false);
  response.writeHead(status, headers).end(body);
}

/** A whole response with a problem. */
function problemBytes(problem: Problem, id: string): Buffer {
  const { status, headers, body } = problemMessage(problem, id, false);
  const lines = Object.entries({ ...headers, Connection: "close" }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, ...lines, "", ""].join("\r\n");
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}

/** How long a refused caller has to close its side; until then what it goes on to send is read, and by nobody. */
const LINGER_MS = 1_000;

/**
 * Refuses what is no request, on the bare connection, and closes it. A response under way goes first:
 * the refusal would otherwise be taken for its beginning.
 */
function refuseOn(
  socket: Duplex,
  earlier: ServerResponse | undefined,
  refusal: Buffer,
  after: HttpServerOptions["after"],
): void {
  if (earlier !== undefined && !earlier.writableFinished && !earlier.destroyed) {
    earlier.once("close", () => refuseOn(socket, undefined, refusal, after));
    return;
  }
  if (!socket.writable || socket.destroyed) {
    socket.destroy();
    return;
  }
  socket.resume();
  socket.once(
    "close",
    after(LINGER_MS, () => socket.destroy()),
  );
  socket.end(refusal);
}

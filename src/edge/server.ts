/**
 * The callers' HTTP server: Express around the journey, and the parser's own refusals in our words.
 */
import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Duplex } from "node:stream";

import express from "express";

import { Problem } from "../errors.ts";
import { problemMessage } from "./problem-message.ts";

export interface ServerOptions {
  readonly journey: (message: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** Longest URL the journey answers for; the parser takes some more, so that it can be told apart. */
  readonly maxUrlBytes: number;
  readonly requestId: () => string;
}

/** Room for headers beside the longest URL. */
const HEADER_BYTES = 16 * 1024;
const HEADERS_TIMEOUT_MS = 15_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than load balancers keep theirs, so that the one who sends is the one who closes. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;

/** @returns the server, not yet listening. */
export function createGatewayServer({ journey, maxUrlBytes, requestId }: ServerOptions): Server {
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.set("query parser", false);
  app.use((message, response) => journey(message, response));

  /** The response under way on a connection; a later, pipelined one takes the place of an earlier. */
  const underWay = new WeakMap<Duplex, ServerResponse>();
  const serve = (message: IncomingMessage, response: ServerResponse): void => {
    underWay.set(message.socket, response);
    // A connection that becomes idle after the server has stopped accepting would keep it from closing.
    response.once("finish", () => {
      if (!server.listening) setImmediate(() => server.closeIdleConnections());
    });
    app(message, response);
  };
  const server = createServer({
    maxHeaderSize: maxUrlBytes * 2 + HEADER_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    // Node would refuse a missing Host with an empty body; admit refuses it with a problem.
    requireHostHeader: false,
  });
  server.on("request", serve);
  // Node would answer both by itself; admit refuses them with a problem.
  server.on("checkContinue", serve);
  server.on("checkExpectation", serve);
  server.on("clientError", (error, socket) => {
    refuseOn(socket, underWay.get(socket), parserProblem(error, maxUrlBytes), requestId());
  });
  server.on("connect", (_message, socket) => {
    const problem = new Problem("method-not-allowed", { headers: { Allow: "GET, HEAD" } });
    refuseOn(socket, underWay.get(socket), problem, requestId());
  });
  return server;
}

/** What Node's parser refused, in our words. */
function parserProblem(error: Error, maxUrlBytes: number): Problem {
  const code: unknown = Reflect.get(error, "code");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new Problem("request-timeout");
  if (code !== "HPE_HEADER_OVERFLOW") return new Problem("malformed-request");
  return isStillInUrl(error)
    ? new Problem("uri-too-long", { detail: `URLs may be ${maxUrlBytes} bytes long.` })
    : new Problem("headers-too-large");
}

/** Whether the parser gave up before the first line had ended, as far as the last packet tells. */
function isStillInUrl(error: Error): boolean {
  const packet: unknown = Reflect.get(error, "rawPacket");
  const parsed: unknown = Reflect.get(error, "bytesParsed");
  return (
    Buffer.isBuffer(packet) && typeof parsed === "number" && !packet.subarray(0, parsed).includes("\r\n")
  );
}

/**
 * Refuses what is no request, on the bare connection, and closes it. A response under way goes first:
 * the refusal would otherwise be taken for its beginning.
 */
function refuseOn(socket: Duplex, earlier: ServerResponse | undefined, problem: Problem, id: string): void {
  if (earlier !== undefined && !earlier.writableFinished && !earlier.destroyed) {
    earlier.once("close", () => refuseOn(socket, undefined, problem, id));
    return;
  }
  if (!socket.writable || socket.destroyed) {
    socket.destroy();
    return;
  }
  const { status, headers, body } = problemMessage(problem, id, false);
  const lines = Object.entries({ ...headers, Connection: "close" }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, ...lines, "", ""].join("\r\n");
  socket.end(Buffer.concat([Buffer.from(head, "latin1"), body]));
}

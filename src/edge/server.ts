/**
 * The callers' HTTP server: Express around the journey, and Node's own refusals in our words.
 */
import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

import express from "express";

import { Problem, problemBody, PROBLEM_CONTENT_TYPE } from "../errors.ts";

export interface ServerOptions {
  readonly journey: (message: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** Longest URL the journey answers for; the parser takes some more, so that it can be told apart. */
  readonly maxUrlBytes: number;
}

/** Room for headers beside the longest URL. */
const HEADER_BYTES = 16 * 1024;
const HEADERS_TIMEOUT_MS = 15_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than load balancers keep theirs, so that the one who sends is the one who closes. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;

/** @returns the server, not yet listening. */
export function createGatewayServer({ journey, maxUrlBytes }: ServerOptions): Server {
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.set("query parser", false);
  app.use((message, response) => journey(message, response));

  const server = createServer(
    {
      maxHeaderSize: maxUrlBytes * 2 + HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
      // A missing Host is refused below, in the same form as everything else.
      requireHostHeader: false,
    },
    (message, response) => {
      if (message.headers.host === undefined && message.httpVersion === "1.1") {
        endSocket(
          message.socket,
          new Problem("malformed-request", { detail: "The Host header is missing." }),
        );
      } else app(message, response);
    },
  );
  // Both would be answered by Node itself; the journey refuses them with a problem.
  server.on("checkContinue", app);
  server.on("checkExpectation", app);
  server.on("clientError", (error, socket) => endSocket(socket, problemOf(error, maxUrlBytes)));
  server.on("connect", (_message, socket) =>
    endSocket(socket, new Problem("method-not-allowed", { headers: { allow: "GET, HEAD" } })),
  );
  return server;
}

/** What Node's parser refused, in our words. */
function problemOf(error: Error, maxUrlBytes: number): Problem {
  const code: unknown = Reflect.get(error, "code");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new Problem("request-timeout");
  if (code !== "HPE_HEADER_OVERFLOW") return new Problem("malformed-request");
  return isStillInUrl(error)
    ? new Problem("uri-too-long", { detail: `URLs may be ${maxUrlBytes} bytes long.` })
    : new Problem("headers-too-large");
}

/** Whether the parser gave up before the first line had ended. */
function isStillInUrl(error: Error): boolean {
  const packet: unknown = Reflect.get(error, "rawPacket");
  return Buffer.isBuffer(packet) && !packet.includes("\r\n");
}

/** Answers on a socket for which there is no response object, and closes it. */
function endSocket(socket: Duplex | Socket, problem: Problem): void {
  if (!socket.writable || socket.destroyed) {
    socket.destroy();
    return;
  }
  const body = problemBody(problem);
  const head = [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status] ?? ""}`,
    `Content-Type: ${PROBLEM_CONTENT_TYPE}`,
    `Content-Length: ${body.length}`,
    `Cache-Status: property-gateway; detail=${problem.code}`,
    "Cache-Control: no-store",
    ...Object.entries(problem.details.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    "Connection: close",
  ].join("\r\n");
  socket.end(Buffer.concat([Buffer.from(`${head}\r\n\r\n`, "latin1"), body]));
}

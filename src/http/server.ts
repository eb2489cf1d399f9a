/**
 * The callers' HTTP server: Express around the journey.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";

import express from "express";

import { createHttpServer, type HttpServerOptions } from "./http-server.ts";

export interface ServerOptions extends Omit<HttpServerOptions, "serve" | "withoutContent"> {
  readonly journey: (message: IncomingMessage, response: ServerResponse) => Promise<void>;
}

/** @returns the server, not yet listening. */
export function createGatewayServer({ journey, ...options }: ServerOptions): Server {
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.set("query parser", false);
  app.use((message, response) => journey(message, response));
  return createHttpServer({ ...options, serve: app, withoutContent: true });
}

/**
 * The operators' HTTP server: metrics and health. Nothing of it is on the callers' port.
 */
import { createServer, type Server } from "node:http";

import express from "express";

export interface AdminOptions {
  readonly renderMetrics: () => Promise<{ contentType: string; text: string }>;
  /** Whether requests are being served; false once the process is told to stop. */
  readonly isReady: () => boolean;
}

/** @returns the server, not yet listening. */
export function createAdminServer({ renderMetrics, isReady }: AdminOptions): Server {
  const app = express();
  app.disable("x-powered-by");
  app.set("query parser", false);
  app.get("/metrics", async (_request, response) => {
    const { contentType, text } = await renderMetrics();
    response.set("Content-Type", contentType).send(text);
  });
  app.get("/livez", (_request, response) => void response.type("text/plain").send("alive\n"));
  app.get("/readyz", (_request, response) => {
    const ready = isReady();
    response
      .status(ready ? 200 : 503)
      .type("text/plain")
      .send(ready ? "ready\n" : "stopping\n");
  });
  app.use((_request, response) => {
    response.status(404).type("text/plain").send("Known: /metrics, /livez, /readyz\n");
  });
  return createServer(app);
}

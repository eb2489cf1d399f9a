/**
 * The control port: the sandbox's faults, barrier, settings and list of arrivals as JSON over HTTP.
 *
 * Keys, hashes and uniques are never shown.
 */
import { createServer, type Server } from "node:http";

import express, { type NextFunction, type Request, type Response } from "express";
import { z } from "zod";

import { FAULT } from "./faults.ts";
import { type Sandbox, VALIDATORS } from "../types.ts";

/** What the control port needs of a sandbox. */
type Controlled = Omit<Sandbox, "data" | "listen" | "listenControl" | "close">;

/** Answers a call, from its JSON body ({} if there is none) and its query. */
type Action = (body: unknown, query: Request["query"]) => unknown;

const MAX_BODY = "64kb";
const PREFIX = z.strictObject({ pathPrefix: z.string().exactOptional() });
const COUNT = z.strictObject({ count: z.int().min(0).exactOptional() });
const SETTINGS = z.strictObject({
  offsetSpelling: z.enum(["offset", "offSet"]).exactOptional(),
  validators: z.enum(VALIDATORS).exactOptional(),
});

/** Calls by path, then by method. */
function actionsOn(sandbox: Controlled): Readonly<Record<string, Readonly<Record<string, Action>>>> {
  const after =
    <T>(schema: z.ZodType<T>, act: (input: T) => void): Action =>
    (body) => {
      act(schema.parse(body));
      return { done: true };
    };
  return {
    "/": { GET: () => sandbox.state() },
    "/faults": {
      GET: () => sandbox.faults.list(),
      POST(body) {
        const faults = z.array(FAULT).parse(Array.isArray(body) ? body : [body]);
        sandbox.faults.add(...faults);
        return sandbox.faults.list();
      },
      DELETE: after(z.unknown(), () => sandbox.faults.clear()),
    },
    "/requests": {
      async GET(_body, query) {
        // `?atLeast=n` answers when n requests have arrived, so that clients need not poll.
        await sandbox.waitForRequests(Number(query["atLeast"] ?? 0) || 0);
        return { counts: sandbox.counts(), requests: sandbox.requests() };
      },
      DELETE: after(z.unknown(), sandbox.clearRequests),
    },
    "/settings": { POST: after(SETTINGS, sandbox.set) },
    "/auth": { POST: after(z.strictObject({ privateKey: z.string() }), sandbox.setCaller) },
    "/revise": { POST: after(PREFIX, sandbox.revise) },
    "/hold": { POST: after(PREFIX, ({ pathPrefix }) => sandbox.hold(pathPrefix)) },
    "/release": { POST: after(COUNT, ({ count }) => sandbox.release(count)) },
    "/reset": { POST: after(z.unknown(), sandbox.reset) },
  };
}

/** A server for the control port of a sandbox. */
export function createControlServer(sandbox: Controlled): Server {
  const app = express();
  const actions = actionsOn(sandbox);
  const send = (response: Response, status: number, body: unknown): void =>
    void response
      .status(status)
      .type("json")
      .send(`${JSON.stringify(body, undefined, 2)}\n`);
  app.use(express.json({ limit: MAX_BODY, strict: false, type: () => true }));
  for (const [path, methods] of Object.entries(actions))
    app.route(path).all(async (request, response) => {
      const action = methods[request.method];
      const allowed = Object.keys(methods).join(", ");
      if (action !== undefined) send(response, 200, await action(request.body ?? {}, request.query));
      else send(response.set("Allow", allowed), 405, { error: `${path} accepts ${allowed}` });
    });
  app.use((_request, response) => {
    send(response, 404, { error: `no such call; known: ${Object.keys(actions).join(", ")}` });
  });
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    if (error instanceof z.ZodError) return send(response, 400, { error: z.prettifyError(error) });
    const message = error instanceof Error ? error.message : String(error);
    // Express refuses a body that is too long, or no JSON.
    const isCallers = error instanceof Error && "expose" in error && error.expose === true;
    send(response, isCallers ? 400 : 500, {
      error: isCallers ? message : `the sandbox has a bug: ${message}`,
    });
  });
  return createServer(app);
}

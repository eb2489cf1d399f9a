/**
 * The control port: the sandbox's faults, barrier, settings and list of arrivals as JSON over HTTP.
 *
 * Keys, hashes and uniques are never shown.
 */
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";

import type { Caller } from "./auth.ts";
import { VALIDATORS } from "./conditional.ts";
import { BadFault, checkedFault } from "./faults.ts";
import { FILTERING, type Filtering } from "./filters.ts";
import type { Sandbox, SandboxSettings } from "./types.ts";

/** What the control port needs of a sandbox. */
type Controlled = Omit<Sandbox, "data" | "listen" | "listenControl" | "close">;

type Json = Readonly<Record<string, unknown>>;

/** Answers a call, from its JSON body ({} if there is none) and its query. */
type Action = (body: unknown, query: URLSearchParams) => unknown;

/** A call that is not well formed (400). */
class BadCall extends Error {}

const MAX_BODY_BYTES = 64 * 1024;
const DONE = { done: true };

async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new BadCall("the body is too long");
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString();
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new BadCall("the body is not JSON");
  }
}

/** The body as an object that has only the named members. */
function members(body: unknown, known: readonly string[]): Json {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new BadCall("the body must be an object");
  }
  const unknown = Object.keys(body).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new BadCall(`${unknown} is not known; known: ${known.join(", ")}`);
  return Object.fromEntries(Object.entries(body));
}

function optionalText(from: Json, name: string): string | undefined {
  const value = from[name];
  if (value !== undefined && typeof value !== "string") throw new BadCall(`${name} must be a string`);
  return value;
}

function optionalCount(from: Json, name: string): number | undefined {
  const value = from[name];
  if (value === undefined) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw new BadCall(`${name} must be an integer, zero or more`);
  }
  return value;
}

function readCaller(body: unknown): Partial<Caller> {
  const given = members(body, ["callerId", "privateKey"]);
  const callerId = optionalText(given, "callerId");
  const privateKey = optionalText(given, "privateKey");
  return { ...(callerId !== undefined && { callerId }), ...(privateKey !== undefined && { privateKey }) };
}

function oneOf<T extends string>(from: Json, name: string, choices: readonly T[]): T | undefined {
  const text = optionalText(from, name);
  const known = choices.find((choice) => choice === text);
  if (text !== undefined && !known) throw new BadCall(`${name} must be one of ${choices.join(", ")}`);
  return known;
}

function readFiltering(from: Json): Partial<Filtering> {
  const { bounds, unset, order, values } = FILTERING;
  const read = {
    bounds: oneOf(from, "bounds", bounds),
    unset: oneOf(from, "unset", unset),
    order: oneOf(from, "order", order),
    values: oneOf(from, "values", values),
  };
  return Object.fromEntries(Object.entries(read).filter(([, choice]) => choice !== undefined));
}

function readSettings(body: unknown): SandboxSettings {
  const names = ["offsetSpelling", "timeWindowSeconds", "validators", ...Object.keys(FILTERING)];
  const given = members(body, names);
  const offsetSpelling = optionalText(given, "offsetSpelling");
  const timeWindowSeconds = optionalCount(given, "timeWindowSeconds");
  const validators = oneOf(given, "validators", VALIDATORS);
  if (offsetSpelling !== undefined && offsetSpelling !== "offset" && offsetSpelling !== "offSet") {
    throw new BadCall('offsetSpelling must be "offset" or "offSet"');
  }
  return {
    ...(offsetSpelling !== undefined && { offsetSpelling }),
    ...(timeWindowSeconds !== undefined && { timeWindowSeconds }),
    ...(validators && { validators }),
    filtering: readFiltering(given),
  };
}

/** Calls by path, then by method. */
function actionsOn(sandbox: Controlled): Readonly<Record<string, Readonly<Record<string, Action>>>> {
  const after =
    (act: (body: unknown) => void): Action =>
    (body) => {
      act(body);
      return DONE;
    };
  return {
    "/": { GET: () => sandbox.state() },
    "/faults": {
      GET: () => sandbox.faults.list(),
      POST: (body) => {
        const faults = (Array.isArray(body) ? (body as unknown[]) : [body]).map((fault) =>
          checkedFault(fault),
        );
        sandbox.faults.add(...faults);
        return sandbox.faults.list();
      },
      DELETE: after(() => sandbox.faults.clear()),
    },
    "/requests": {
      GET: async (_body, query) => {
        // `?atLeast=n` answers when n requests have arrived, so that clients need not poll.
        await sandbox.waitForRequests(Number(query.get("atLeast") ?? 0) || 0);
        return { counts: sandbox.counts(), requests: sandbox.requests() };
      },
      DELETE: after(() => sandbox.clearRequests()),
    },
    "/auth": { POST: after((body) => sandbox.setCaller(readCaller(body))) },
    "/settings": { POST: after((body) => sandbox.set(readSettings(body))) },
    "/revise": {
      POST: after((body) =>
        sandbox.revise({ pathPrefix: optionalText(members(body, ["pathPrefix"]), "pathPrefix") }),
      ),
    },
    "/hold": {
      POST: after((body) => sandbox.hold(optionalText(members(body, ["pathPrefix"]), "pathPrefix"))),
    },
    "/release": {
      POST: after((body) => sandbox.release(optionalCount(members(body, ["count"]), "count"))),
    },
    "/reset": { POST: after(() => sandbox.reset()) },
  };
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(`${JSON.stringify(body, undefined, 2)}\n`);
}

/** A server for the control port of a sandbox. */
export function createControlServer(sandbox: Controlled): Server {
  const actions = actionsOn(sandbox);

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = "/", query = ""] = (request.url ?? "/").split("?");
    const methods = Object.hasOwn(actions, path) ? actions[path] : undefined;
    if (!methods) {
      sendJson(response, 404, { error: `no such call; known: ${Object.keys(actions).join(", ")}` });
      return;
    }
    const action = methods[request.method ?? ""];
    if (!action) {
      response.setHeader("Allow", Object.keys(methods).join(", "));
      sendJson(response, 405, { error: `${path} accepts ${Object.keys(methods).join(", ")}` });
      return;
    }
    const body = await readBody(request);
    sendJson(response, 200, await action(body, new URLSearchParams(query)));
  }

  return createServer((request, response) => {
    serve(request, response).catch((error: unknown) => {
      if (response.headersSent) return;
      const isCallers = error instanceof BadCall || error instanceof BadFault;
      const why = error instanceof Error ? error.message : String(error);
      if (isCallers) sendJson(response, 400, { error: why });
      else sendJson(response, 500, { error: `the sandbox has a bug: ${why}` });
    });
  });
}

/** The OpenAPI document of the admin port, made of the tables by which its requests are validated. */
import { headerRefs, RESPONSE_HEADERS } from "../openapi/headers.ts";
import { type Json, OPENAPI_VERSION } from "../openapi/json.ts";
import { problemName, PROBLEM_SCHEMA, problemResponses, problemStatuses } from "../openapi/problems.ts";
import { SEND_COUNTS } from "../usage/usage.ts";
import { QUOTE_PARAMETERS } from "./budget.ts";
import { HISTORY_PARAMETERS } from "./status/routes.ts";
import { ENTRY_PARAMETERS, PURGE_PROPERTIES } from "./cache.ts";
import type { AdminParameter } from "./parameters.ts";
import { USAGE_PARAMETERS } from "./usage.ts";

const text: Json = { type: "string" };
const integer: Json = { type: "integer" };
const number: Json = { type: "number" };
const instant: Json = { type: "string", format: "date-time" };
const orNull = ({ type, ...rest }: Json): Json => ({ type: [type, "null"], ...rest });
const list = (items: Json): Json => ({ type: "array", items });
/** All of these properties are always there. */
const object = (properties: Json, optional: Json = {}): Json => ({
  type: "object",
  required: Object.keys(properties),
  properties: { ...properties, ...optional },
});

const origin = object({
  mode: text,
  windows: list(
    object({
      name: text,
      limit: integer,
      spent: integer,
      remaining: integer,
      comesBack: list(object({ calls: integer, inMs: number })),
      byApp: { type: "object", additionalProperties: integer },
    }),
  ),
  queue: { type: "object", additionalProperties: integer },
  predictedWaitMs: integer,
  waitsFor: orNull(text),
  circuits: list(object({ scope: text, state: text, cause: text, sinceMs: number, forMs: number })),
});

const byName: Json = { type: "object", additionalProperties: number };
const epochMs: Json = { type: "number", description: "Epoch milliseconds." };
const originStatus = object({
  mode: text,
  windows: list(
    object({
      name: text,
      limit: integer,
      windowMs: number,
      spent: integer,
      remaining: integer,
      heldBack: integer,
      comesBack: list(object({ calls: integer, inMs: number })),
      load: { ...number, description: "Part of the limit that is spent in the long run at this pace." },
      emptyInMs: { ...orNull(number), description: "When nothing is left at this pace; null: never." },
    }),
  ),
  predictedWaitMs: integer,
  waitsFor: orNull(text),
  circuits: list(object({ scope: text, state: text, cause: text, since: epochMs, until: epochMs })),
});

const counts = Object.fromEntries(SEND_COUNTS.map((name) => [name, integer]));

const SCHEMAS: Readonly<Record<string, Json>> = {
  Problem: PROBLEM_SCHEMA,
  Budget: object({ mode: text, reserve: {}, api: origin, images: origin }),
  Usage: object(
    {
      from: instant,
      to: instant,
      by: text,
      totals: object(counts),
      rows: list(object(counts)),
      windows: list(
        object({
          name: text,
          limit: orNull(integer),
          maximum: integer,
          reachedAt: orNull(instant),
          kept: { type: "boolean" },
        }),
      ),
    },
    { completeSince: instant },
  ),
  Quote: object(
    {
      query: text,
      app: text,
      cached: { type: "boolean" },
      why: text,
      ageSeconds: orNull(integer),
      upstreamCalls: integer,
      predictedWaitMs: integer,
      refusal: orNull(text),
    },
    { waitsFor: orNull(text) },
  ),
  CacheEntry: object({
    query: text,
    key: text,
    next: { type: "string", enum: ["hit", "update", "fetch"] },
    why: text,
    entry: orNull(
      object({
        tier: text,
        status: integer,
        ageSeconds: integer,
        freshForSeconds: integer,
        keptForSeconds: integer,
        bodyBytes: integer,
        codings: list(text),
        etag: text,
        tags: list(text),
      }),
    ),
  }),
  CacheHistory: object({
    query: text,
    asked: {
      ...integer,
      description: "Requests in the last hour; 0: not among the queries that are counted.",
    },
    requests: list(
      object({ at: epochMs, app: text, outcome: text, status: integer, durationMs: number, why: text }),
    ),
  }),
  Status: object({
    at: epochMs,
    scope: { type: "string", enum: ["alone", "all", "cut-off"] },
    mode: text,
    processes: list(object({ id: text, host: text, version: text, startedAt: epochMs })),
    sinceAt: epochMs,
    perSecond: byName,
    series: object({
      stepMs: integer,
      lastStep: integer,
      counts: { type: "object", additionalProperties: list(number) },
    }),
    outcomes: byName,
    saved: byName,
    apps: list(
      object({
        app: text,
        requests: integer,
        saved: integer,
        refused: integer,
        isListed: { type: "boolean" },
        weight: number,
        spent: byName,
        shares: list(
          object({
            name: text,
            limit: number,
            windowSeconds: integer,
            remaining: number,
            resetSeconds: integer,
          }),
        ),
      }),
    ),
    asked: list(object({ key: text, count: integer })),
    slowest: list(object({ query: text, app: text, durationMs: number, at: epochMs })),
    upstream: {
      type: "object",
      additionalProperties: object({
        calls: integer,
        failed: integer,
        answeredMs: number,
        lastAnswerAt: orNull(epochMs),
        lastFailureAt: orNull(epochMs),
        lastFailure: orNull(text),
        failingSince: orNull(epochMs),
      }),
    },
    problems: list(
      object({
        from: { type: "string", enum: ["caller", "upstream", "gateway"] },
        what: text,
        count: integer,
        firstAt: epochMs,
        lastAt: epochMs,
        query: orNull(text),
        app: orNull(text),
      }),
    ),
    queue: { type: "object", additionalProperties: byName },
    callsPerSecond: { type: "object", additionalProperties: list(number) },
    budget: object({ api: originStatus, images: originStatus }),
  }),
  Session: object({
    loginNeeded: { type: "boolean" },
    expiresAt: orNull(epochMs),
    csrfToken: { ...orNull(text), description: "Changes in the session carry it as X-CSRF-Token." },
  }),
  LoginRequest: object({ token: text }),
  Warm: object({
    urls: list(
      object({
        query: text,
        format: text,
        app: text,
        everySeconds: orNull(number),
        dueInSeconds: number,
        last: orNull(text),
      }),
    ),
  }),
  PurgeRequest: {
    type: "object",
    additionalProperties: false,
    properties: PURGE_PROPERTIES,
    oneOf: ["url", "key", "resource", "tag", "all"].map((name) => ({ required: [name] })),
  },
  Purged: object({ purged: { type: "object" }, hard: { type: "boolean" }, epoch: integer }),
  Reloaded: object({ applied: { const: true }, changes: list(object({ path: text })) }),
};

/** An operation and what is special about it. */
interface Operation {
  readonly id: string;
  readonly summary: string;
  readonly parameters?: readonly AdminParameter[];
  readonly body?: string;
  readonly content: Json;
  /** Further headers of the answer. */
  readonly headers?: readonly string[];
  /** Further responses. */
  readonly more?: Json;
}

const json = (schema: string): Json => ({
  "application/json": { schema: { $ref: `#/components/schemas/${schema}` } },
});
const plain: Json = { "text/plain": { schema: text } };

const READS: Readonly<Record<string, Operation>> = {
  "/livez": { id: "livez", summary: "Whether the process is alive", content: plain },
  "/readyz": {
    id: "readyz",
    summary: "Whether requests are taken",
    content: plain,
    more: {
      503: {
        description: "Not yet, or not any more; or a problem.",
        content: {
          ...plain,
          "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } },
        },
      },
    },
  },
  "/metrics": { id: "metrics", summary: "Metrics for Prometheus", content: plain },
  "/budget": {
    id: "budget",
    summary: "What is left of the budget, and who spent it",
    content: json("Budget"),
  },
  "/usage": {
    id: "usage",
    summary: "What was sent to the property service in a period, and whether the limits were kept",
    parameters: USAGE_PARAMETERS,
    content: { ...json("Usage"), "text/csv": { schema: text } },
  },
  "/quote": {
    id: "quote",
    summary: "What a request would cost now, and how long it would wait",
    parameters: QUOTE_PARAMETERS,
    content: json("Quote"),
  },
  "/cache/entry": {
    id: "cacheEntry",
    summary: "What is known of a URL",
    parameters: ENTRY_PARAMETERS,
    content: json("CacheEntry"),
  },
  "/cache/history": {
    id: "cacheHistory",
    summary: "Why requests for a URL were no hits, as far as this process remembers",
    parameters: HISTORY_PARAMETERS,
    content: json("CacheHistory"),
  },
  "/status": { id: "status", summary: "What the status page at / shows", content: json("Status") },
  "/status/events": {
    id: "statusEvents",
    summary: "The same every second, as server-sent events named `status`, until the client goes",
    content: { "text/event-stream": { schema: text } },
    headers: ["X-Accel-Buffering"],
  },
  "/session": {
    id: "session",
    summary: "Whether a browser has to log in",
    content: json("Session"),
  },
  "/cache/warm": { id: "warm", summary: "How the answers that are kept warm stand", content: json("Warm") },
  "/openapi.json": {
    id: "document",
    summary: "Shows this document",
    content: { "application/json": { schema: object({ openapi: text, paths: { type: "object" } }) } },
  },
};

const WRITES: Readonly<Record<string, Operation>> = {
  "/cache/purge": {
    id: "purge",
    summary: "Declares answers out of date",
    body: "PurgeRequest",
    content: json("Purged"),
  },
  "/login": {
    id: "login",
    summary: "Exchanges the admin token for a session, in a cookie",
    body: "LoginRequest",
    content: json("Session"),
    headers: ["Set-Cookie"],
  },
  "/logout": {
    id: "logout",
    summary: "Deletes the cookie",
    content: json("Session"),
    headers: ["Set-Cookie"],
  },
  "/config/reload": {
    id: "reload",
    summary: "Reads the settings again; all of them apply, or none",
    content: json("Reloaded"),
  },
};

/** Problems that only `/config/reload` answers, and those of unknown paths. */
const OF_RELOAD = new Set([409, 422]);
const UNKNOWN_PATH = 404;

/** @returns the document */
export function createAdminDocument({ version }: { readonly version: string }): Json {
  const paths = [
    ...Object.entries(READS).map(([path, operation]) => [path, { get: operationOf(operation) }]),
    ...Object.entries(WRITES).map(([path, operation]) => [path, { post: operationOf(operation) }]),
  ];
  return {
    openapi: OPENAPI_VERSION,
    info: {
      title: "Property gateway: admin port",
      version,
      description:
        "Metrics, health, budget, usage and cache. Health is open to everybody. Everything else takes the admin token, " +
        "where one is set.",
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }, {}],
    paths: Object.fromEntries(paths),
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
      schemas: SCHEMAS,
      headers: RESPONSE_HEADERS,
      responses: problemResponses("admin"),
    },
  };
}

function operationOf(operation: Operation): Json {
  const { id, summary, parameters = [], body, content, headers = [], more = {} } = operation;
  const statuses = problemStatuses("admin").filter(
    (status) => status !== UNKNOWN_PATH && (id === "reload" || !OF_RELOAD.has(status)),
  );
  return {
    operationId: id,
    summary,
    parameters: parameters.map(parameterOf),
    ...(body !== undefined && { requestBody: { required: true, content: json(body) } }),
    responses: {
      200: {
        description: "The answer.",
        content,
        headers: headerRefs(["ETag", "Vary", "Cache-Control", ...headers]),
      },
      ...Object.fromEntries(
        statuses.map((status) => [status, { $ref: `#/components/responses/${problemName(status)}` }]),
      ),
      ...more,
    },
  };
}

function parameterOf({ name, meaning, example, required, values }: AdminParameter): Json {
  return {
    name,
    in: "query",
    description: `${meaning}.`,
    ...(required && { required }),
    schema: { type: "string", ...(values && { enum: values }), ...(required && { minLength: 1 }) },
    example,
  };
}

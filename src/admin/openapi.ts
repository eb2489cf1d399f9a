/** The OpenAPI document of the admin port, made of the tables by which its requests are validated. */
import { headerRefs, RESPONSE_HEADERS } from "../openapi/headers.ts";
import { type Json, OPENAPI_VERSION } from "../openapi/json.ts";
import { problemName, PROBLEM_SCHEMA, problemResponses, problemStatuses } from "../openapi/problems.ts";
import { SEND_COUNTS } from "../usage/usage.ts";
import { QUOTE_PARAMETERS } from "./budget.ts";
import { PERIOD_PARAMETERS } from "./callers.ts";
import { ENTRY_PARAMETERS, PURGE_PROPERTIES } from "./cache.ts";
import { LOG_PROPERTIES } from "./log.ts";
import { type AdminParameter, PRETTY } from "./parameters.ts";
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
      byApp: { type: "object", additionalProperties: integer },
    }),
  ),
  queue: { type: "object", additionalProperties: integer },
  predictedWaitMs: integer,
  waitsFor: orNull(text),
  circuits: list(object({ scope: text, state: text, forMs: number })),
  apps: list(
    object({
      app: text,
      isListed: { type: "boolean" },
      shares: list(
        object({
          name: text,
          limit: integer,
          windowSeconds: integer,
          remaining: integer,
          resetSeconds: integer,
        }),
      ),
    }),
  ),
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
  Purged: object({
    purged: { type: "object" },
    hard: { type: "boolean" },
    epoch: integer,
    hits: {
      type: "object",
      description: "Answers that were hit, by tier; null: not counted.",
      additionalProperties: orNull(integer),
    },
  }),
  Replicas: object({ replicas: list({ type: "object" }) }),
  DeadReplica: object({
    dead: { ...text, description: "The name or the slot of the replica.", minLength: 1 },
  }),
  Callers: object({
    scope: { const: "one process" },
    from: instant,
    to: instant,
    since: instant,
    ages: object({
      answers: integer,
      oldestSeconds: integer,
      groups: list(object({ upToSeconds: orNull(integer), answers: integer })),
    }),
    apps: list(
      object({
        app: text,
        isListed: { type: "boolean" },
        identifiedBy: { type: "string", enum: ["app-id", "user-agent", "nothing"] },
        userAgent: orNull(text),
        firstSeenAt: instant,
      }),
    ),
  }),
  Log: object(LOG_PROPERTIES),
  LogRequest: { type: "object", additionalProperties: false, minProperties: 1, properties: LOG_PROPERTIES },
  Version: object({ version: text, node: text }),
  Reloaded: object({ applied: { const: true }, changes: list(object({ path: text })) }),
};

/** An operation and what is special about it. */
interface Operation {
  readonly id: string;
  readonly summary: string;
  readonly parameters?: readonly AdminParameter[];
  readonly body?: string;
  readonly content: Json;
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
  "/budget/replicas": {
    id: "replicas",
    summary: "The replicas that hold a slot of the budget, as Redis knows them",
    content: json("Replicas"),
  },
  "/usage": {
    id: "usage",
    summary: "What was sent to the property service in a period, and whether the limits were kept",
    parameters: USAGE_PARAMETERS,
    content: { ...json("Usage"), "text/csv": { schema: text } },
  },
  "/callers": {
    id: "callers",
    summary: "How the apps identify themselves, and how old the answers were that they got from the cache",
    parameters: PERIOD_PARAMETERS,
    content: json("Callers"),
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
  "/cache/warm": { id: "warm", summary: "How the answers that are kept warm stand", content: json("Warm") },
  "/log": { id: "log", summary: "What the log contains", content: json("Log") },
  "/version": { id: "version", summary: "Which versions run", content: json("Version") },
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
  "/budget/replicas": {
    id: "endReplica",
    summary: "Says that the process of a replica has ended, which frees its slot",
    body: "DeadReplica",
    content: json("Replicas"),
  },
  "/log": {
    id: "changeLog",
    summary: "Changes what the log contains, until the settings are reloaded or the process ends",
    body: "LogRequest",
    content: json("Log"),
  },
  "/config/reload": {
    id: "reload",
    summary: "Reads the settings again; all of them apply, or none",
    content: json("Reloaded"),
  },
};

/** The parameters of each path. */
export const ADMIN_PARAMETERS: ReadonlyMap<string, readonly AdminParameter[]> = new Map(
  [...Object.entries(READS), ...Object.entries(WRITES)].map(([path, { parameters = [] }]) => [
    path,
    parameters,
  ]),
);

/** Problems that only `/config/reload` answers, and those of unknown paths. */
const OF_RELOAD = new Set([409, 422]);
const UNKNOWN_PATH = 404;

/** @returns the document */
export function createAdminDocument({ version }: { readonly version: string }): Json {
  const paths = [...ADMIN_PARAMETERS.keys()].map((path) => {
    const [read, write] = [READS[path], WRITES[path]];
    return [path, { ...(read && { get: operationOf(read) }), ...(write && { post: operationOf(write) }) }];
  });
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

function operationOf({ id, summary, parameters = [], body, content, more = {} }: Operation): Json {
  const statuses = problemStatuses("admin").filter(
    (status) => status !== UNKNOWN_PATH && (id === "reload" || !OF_RELOAD.has(status)),
  );
  return {
    operationId: id,
    summary,
    parameters: [...parameters, PRETTY].map(parameterOf),
    ...(body !== undefined && { requestBody: { required: true, content: json(body) } }),
    responses: {
      200: { description: "The answer.", content, headers: headerRefs(["ETag", "Vary", "Cache-Control"]) },
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

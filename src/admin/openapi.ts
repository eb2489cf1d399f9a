/** The OpenAPI document of the admin port, generated from the tables that validate its requests. */
import { headerRefs, RESPONSE_HEADERS } from "../openapi/headers.ts";
import { type Json, OPENAPI_VERSION } from "../openapi/shapes.ts";
import { problemName, problemResponses, problemStatuses } from "../openapi/problems.ts";
import { QUOTE_PARAMETERS } from "./budget.ts";
import { HISTORY_PARAMETERS } from "./status/routes.ts";
import { PERIOD_PARAMETERS } from "./callers.ts";
import { ENTRY_PARAMETERS } from "./cache.ts";
import { object, SCHEMAS, text } from "./openapi-schemas.ts";
import { type AdminParameter, PRETTY } from "./parameters.ts";
import { USAGE_PARAMETERS } from "./usage.ts";

/** An operation, as far as it differs from the others. */
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
const openApiDocument: Json = {
  "application/json": { schema: object({ openapi: text, paths: { type: "object" } }) },
};

const READS: Readonly<Record<string, Operation>> = {
  "/livez": { id: "livez", summary: "Whether the process is alive", content: plain },
  "/readyz": {
    id: "readyz",
    summary: "Whether the gateway accepts requests",
    content: plain,
    more: {
      503: {
        description: "The process is starting or stopping; or a problem.",
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
    summary: "What is left of the budget, and which apps spent it",
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
    summary: "How the apps identify themselves, and how old the cached answers were that they got",
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
    summary: "What the cache knows about a URL",
    parameters: ENTRY_PARAMETERS,
    content: json("CacheEntry"),
  },
  "/cache/history": {
    id: "cacheHistory",
    summary: "Why requests for a URL were not hits, as far as this process remembers",
    parameters: HISTORY_PARAMETERS,
    content: json("CacheHistory"),
  },
  "/status": { id: "status", summary: "What the status page at / shows", content: json("Status") },
  "/status/events": {
    id: "statusEvents",
    summary: "The same every second, as server-sent events named `status`, until the client disconnects",
    content: { "text/event-stream": { schema: text } },
    headers: ["X-Accel-Buffering"],
  },
  "/session": {
    id: "session",
    summary: "Whether a browser has to log in",
    content: json("Session"),
  },
  "/cache/warm": { id: "warm", summary: "The state of the warm list", content: json("Warm") },
  "/log": { id: "log", summary: "The settings of the log", content: json("Log") },
  "/version": { id: "version", summary: "The versions of the gateway and of Node", content: json("Version") },
  "/openapi.json": {
    id: "document",
    summary: "Shows this document",
    content: openApiDocument,
  },
  "/docs/callers.json": {
    id: "callersDocument",
    summary: "Shows the document of the callers' port",
    content: openApiDocument,
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
  "/budget/replicas": {
    id: "endReplica",
    summary: "Frees the slot of a replica whose process has ended",
    body: "DeadReplica",
    content: json("Replicas"),
  },
  "/log": {
    id: "changeLog",
    summary: "Changes the settings of the log until the settings are reloaded or the process ends",
    body: "LogRequest",
    content: json("Log"),
  },
  "/config/reload": {
    id: "reload",
    summary: "Reads the settings again. Either all changes apply, or none",
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

/** Statuses that only `/config/reload` answers, and the status of unknown paths. */
const OF_RELOAD = new Set([409, 422]);
const UNKNOWN_PATH = 404;

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
        "Metrics, health, budget, usage and cache. If an admin token is set, every path needs it or a session, except " +
        "/livez, /readyz, /metrics, /session, /login and /logout.",
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
    parameters: [...parameters, PRETTY].map(parameterOf),
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

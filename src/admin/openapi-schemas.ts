/** The JSON Schemas of the admin port's requests and responses. */
import type { Json } from "../openapi/shapes.ts";
import { PROBLEM_SCHEMA } from "../openapi/problems.ts";
import { SEND_COUNTS } from "../usage/usage.ts";
import { PURGE_PROPERTIES } from "./cache.ts";
import { LOG_PROPERTIES } from "./log.ts";

export const text: Json = { type: "string" };
const integer: Json = { type: "integer" };
const number: Json = { type: "number" };
const instant: Json = { type: "string", format: "date-time" };
const orNull = ({ type, ...rest }: Json): Json => ({ type: [type, "null"], ...rest });
const list = (items: Json): Json => ({ type: "array", items });
/** @param properties are always present; `optional` ones may be absent */
export const object = (properties: Json, optional: Json = {}): Json => ({
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
      load: {
        ...number,
        description: "The part of the limit that is spent in the long run at the present rate.",
      },
      emptyInMs: {
        ...orNull(number),
        description: "Milliseconds until nothing is left at the present rate; null: never.",
      },
    }),
  ),
  predictedWaitMs: integer,
  waitsFor: orNull(text),
  circuits: list(object({ scope: text, state: text, cause: text, since: epochMs, until: epochMs })),
});

const counts = Object.fromEntries(SEND_COUNTS.map((name) => [name, integer]));

export const SCHEMAS: Readonly<Record<string, Json>> = {
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
          kept: { enum: [true, false, "unknown"] },
        }),
      ),
      savedSinceStart: { type: "object", additionalProperties: integer },
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
  CacheEntry: object(
    {
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
    },
    { cutFrom: text },
  ),
  CacheHistory: object({
    query: text,
    asked: {
      ...integer,
      description: "Requests in the last hour; 0 if the query is not among those that are counted.",
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
    outages: list(object({ what: text, cause: text, meanwhile: text, since: epochMs })),
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
    csrfToken: {
      ...orNull(text),
      description: "Requests that change something in the session must carry it as X-CSRF-Token.",
    },
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
  Purged: object({
    purged: { type: "object" },
    hard: { type: "boolean" },
    epoch: integer,
  }),
  Replicas: object({ replicas: list({ type: "object" }) }),
  DeadReplica: object({
    dead: { ...text, description: "The name or the slot of the replica.", minLength: 1 },
  }),
  Callers: object({
    scope: { type: "string", enum: ["alone", "all", "cut-off"] },
    processes: integer,
    from: instant,
    to: instant,
    since: instant,
    completeSince: instant,
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

import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { eventually } from "./eventually.ts";

import type { Store, StoreEvent } from "../../src/cache/store/port.ts";
import { createRedisStore } from "../../src/cache/store/redis.ts";
import type { Problem } from "../../src/errors.ts";
import { systemClock } from "../../src/process/clock.ts";
import { createSeal } from "../../src/process/seal.ts";
import { systemRandom } from "../../src/process/random.ts";
import { NAMESPACE } from "../../src/query/key.ts";
import { createCommandTimeout } from "../../src/redis/command-timeout.ts";
import type { RedisSettings } from "../../src/redis/connect.ts";
import { createRedisService, type RedisService, type RedisServiceOptions } from "../../src/redis/service.ts";
import { createRedisClaims } from "../../src/singleflight/redis-claims.ts";
import type { CircuitState } from "../../src/telemetry/events.ts";
import type { Claims } from "../../src/singleflight/replicas.ts";
import type { Entry } from "../../src/cache/entry.ts";
import { type RedisServer, startRedis } from "./redis.ts";
import { startTcpProxy, type TcpProxy } from "./tcp-proxy.ts";

/** A replica's backend and claims, and what it reported. */
export interface WatchedBackend extends Store {
  readonly store: Store;
  readonly claims: Claims;
  readonly run: RedisService["run"];
  readonly service: RedisService;
  /** Its name. */
  readonly replica: string;
  readonly renew: RedisService["renew"];
  readonly close: () => Promise<void>;
  readonly events: StoreEvent[];
  /** Flights that failed in some replica. */
  readonly failed: { readonly key: string; readonly problem: Problem }[];
  readonly states: CircuitState[];
  readonly warnings: string[];
  readonly infos: string[];
  /** The number of commands so far, those the breaker refused included. */
  readonly operations: () => number;
}

/** The seal of all replicas. */
export const SEAL = createSeal(() => "the private key");

/** Opens a backend with real time and, by default, longer timeouts than a busy machine needs. */
export function openRedisBackend(
  connect: RedisSettings | (() => RedisSettings),
  options: Partial<RedisServiceOptions & { retentionMs: number; commandTimeoutMs: number }> = {},
): WatchedBackend {
  const { clock = systemClock, retentionMs = 86_400_000, commandTimeoutMs = 2_000 } = options;
  const events: StoreEvent[] = [];
  const failed: { key: string; problem: Problem }[] = [];
  const states: CircuitState[] = [];
  const warnings: string[] = [];
  const infos: string[] = [];
  let operations = 0;
  const replica = systemRandom.unique16();
  const redis = createRedisService({
    namespace: NAMESPACE,
    cache: NAMESPACE,
    replica,
    seal: SEAL,
    connect: typeof connect === "function" ? connect : () => connect,
    clock,
    timeout: createCommandTimeout(commandTimeoutMs),
    probeIntervalMs: 100,
    observer: {
      warn: (message, fields) => void warnings.push(`${message}: ${String(fields["cause"])}`),
      outOfOrder: ({ what, cause }) => void warnings.push(`${what}: ${cause}`),
      backInOrder: (what) => void infos.push(what),
    },
    onOperation: () => void operations++,
    onBreaker: (state) => void states.push(state),
    ...options,
  });
  const backend = createRedisStore({
    redis,
    namespace: NAMESPACE,
    clock,
    retentionMs,
    seal: SEAL,
    onUnreadable: () => void warnings.push("unreadable"),
  });
  const claims = createRedisClaims({
    redis,
    clock,
    namespace: NAMESPACE,
    newHolder: systemRandom.unique16,
    onFailed: (key, problem) => void failed.push({ key, problem }),
  });
  backend.onEvent((event) => void events.push(event));
  return {
    ...backend,
    store: backend,
    claims,
    run: redis.run,
    service: redis,
    replica,
    renew: redis.renew,
    async close() {
      for (const part of [claims, backend, redis]) part.close();
    },
    events,
    failed,
    states,
    warnings,
    infos,
    operations: () => operations,
  };
}

/** An entry stored now, for a day. */
export function entryOf(body: string, fields: Partial<Entry> = {}): Entry {
  const storedAt = fields.storedAt ?? Date.now();
  return {
    status: 200,
    contentType: "application/json",
    bodies: { identity: Buffer.from(body) },
    bodyBytes: Buffer.byteLength(body),
    etag: "tag",
    validators: { etag: undefined, lastModified: undefined },
    tags: [],
    purgeEpoch: 0,
    storedAt,
    bornAt: storedAt,
    upstreamStale: {},
    freshUntil: storedAt + 60_000,
    keepUntil: storedAt + 86_400_000,
    served: { count: 0 },
    ...fields,
  };
}

export interface Replicas {
  readonly redis: () => RedisServer;
  /** What to close after the test, the latest first. */
  readonly opened: { close: () => Promise<void> }[];
  /** Opens a replica, and resolves when it listens. */
  readonly replica: (...parameters: Partial<Parameters<typeof openRedisBackend>>) => Promise<WatchedBackend>;
  /** The same, through a proxy that can cut it off. */
  readonly remoteReplica: (
    ...options: [Parameters<typeof openRedisBackend>[1]?]
  ) => Promise<{ proxy: TcpProxy; backend: WatchedBackend }>;
}

/** One Redis server for a test file. Each test opens replicas, which are closed after it. */
export function startReplicas(): Replicas {
  let server: RedisServer | undefined;
  const opened: Replicas["opened"] = [];
  beforeAll(async () => {
    server = await startRedis();
  });
  afterEach(async () => {
    for (const one of opened.splice(0).toReversed()) await one.close();
    await redis().command("FLUSHALL");
  });
  afterAll(() => server?.close());

  function redis(): RedisServer {
    if (server === undefined) throw new Error("Redis has not started");
    return server;
  }
  async function replica(
    ...[settings = redis().settings, options]: Partial<Parameters<typeof openRedisBackend>>
  ): Promise<WatchedBackend> {
    const backend = openRedisBackend(settings, options);
    opened.push(backend);
    await eventually(() => expect(backend.events).toContainEqual({ kind: "gap" }));
    return backend;
  }
  return {
    redis,
    opened,
    replica,
    async remoteReplica(...options) {
      const proxy = await startTcpProxy(redis().port);
      opened.push(proxy);
      const settings = { ...redis().settings, url: `redis://127.0.0.1:${proxy.port}` };
      return { proxy, backend: await replica(settings, ...options) };
    },
  };
}

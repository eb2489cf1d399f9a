import { afterAll, beforeAll, beforeEach, expect, onTestFinished } from "vitest";

import type { Store, StoreEvent } from "../../src/cache/store/port.ts";
import { ENTRY_SCRIPTS, RedisStore } from "../../src/cache/store/redis.ts";
import { Secret } from "../../src/config/secrets/secret.ts";
import type { Problem } from "../../src/errors.ts";
import { systemClock } from "../../src/process/clock.ts";
import { createSeal } from "../../src/process/seal.ts";
import { systemRandom } from "../../src/process/random.ts";
import { NAMESPACE } from "../../src/query/key.ts";
import { PURSE_SCRIPTS } from "../../src/ratelimit/limits/redis-script.ts";
import { createCommandTimeout } from "../../src/redis/command-timeout.ts";
import { RedisService, type RedisServiceOptions } from "../../src/redis/redis.ts";
import { ReplicaLeases } from "../../src/singleflight/replica-leases.ts";
import { createBus } from "../../src/redis/messages.ts";
import type { CircuitState } from "../../src/telemetry/events.ts";
import { type RedisAt, type RedisServer, startRedis } from "./redis.ts";
import { startTcpProxy, type TcpProxy } from "./tcp-proxy.ts";

/** A replica's store and claims, and what they reported. */
export type WatchedBackend = ReturnType<typeof openRedisBackend>;

/** The seal of all replicas. */
export const SEAL = createSeal(() => "the private key");

/** Writes messages as a further replica. */
export const OUTSIDER = createBus({ namespace: NAMESPACE, cache: NAMESPACE, replica: "other", seal: SEAL });

type Options = Partial<RedisServiceOptions & { retentionMs: number; commandTimeoutMs: number }>;

/** For a clock that a test moves: nothing but what is tested falls due. */
export const NEVER = { commandTimeoutMs: 1e12, probeIntervalMs: 1e12 };

/** Opens a backend with real time and, by default, longer timeouts than a busy machine needs. */
export function openRedisBackend({ url, ...to }: RedisAt, options: Options = {}) {
  const { clock = systemClock, retentionMs = 86_400_000, commandTimeoutMs = 2_000 } = options;
  const events: StoreEvent[] = [];
  /** Flights that failed in some replica. */
  const failed: { readonly key: string; readonly problem: Problem }[] = [];
  const states: CircuitState[] = [];
  const [warnings, infos]: [string[], string[]] = [[], []];
  const replica = systemRandom.unique16();
  const service = new RedisService({
    namespace: NAMESPACE,
    cache: NAMESPACE,
    seal: SEAL,
    clock,
    replica,
    connect: () => ({ ...to, url: new Secret(url) }),
    scripts: { ...ENTRY_SCRIPTS, ...PURSE_SCRIPTS },
    timeout: createCommandTimeout(commandTimeoutMs),
    probeIntervalMs: 100,
    observer: {
      warn: (message, fields) => void warnings.push(`${message}: ${String(fields["cause"])}`),
      outOfOrder: ({ what, cause }) => void warnings.push(`${what}: ${cause}`),
      backInOrder: (what) => void infos.push(what),
    },
    onOperation: () => undefined,
    onBreaker: (state) => void states.push(state),
    ...options,
  });
  const store = new RedisStore(service, retentionMs, () => void warnings.push("unreadable"));
  const onFailed = (key: string, problem: Problem): void => void failed.push({ key, problem });
  const claims = new ReplicaLeases(service, systemRandom.unique16, onFailed);
  const { tier, get, set, remove, purge, onEvent, stats }: Store = store;
  onEvent((event) => void events.push(event));
  return {
    tier,
    get,
    set,
    remove,
    purge,
    onEvent,
    stats,
    events,
    failed,
    states,
    warnings,
    infos,
    claims: {
      claim: (key: string, abandoned = new AbortController().signal) => claims.claim(key, abandoned),
    },
    service,
    /** Its name. */
    replica,
    close: async () => {
      for (const part of [claims, store, service]) part.close();
    },
  };
}

/** The same for one test, which closes it. */
export function backendOf(...parameters: Parameters<typeof openRedisBackend>): WatchedBackend {
  const backend = openRedisBackend(...parameters);
  onTestFinished(backend.close);
  return backend;
}

/** The same. Resolves when it is subscribed to the messages of the others. */
export async function replicaOf(...parameters: Parameters<typeof openRedisBackend>): Promise<WatchedBackend> {
  const backend = backendOf(...parameters);
  await expect.poll(() => backend.events).toContainEqual({ kind: "gap" });
  return backend;
}

/** How often a replica missed messages. */
export function gapsOf({ events }: WatchedBackend): number {
  return events.filter(({ kind }) => kind === "gap").length;
}

/** A proxy in front of a server for one test, and the settings to reach the server through it. */
export async function proxyOf(server: RedisServer): Promise<{ proxy: TcpProxy; settings: RedisAt }> {
  const proxy = await startTcpProxy(server.port);
  return { proxy, settings: { ...server.settings, url: `redis://127.0.0.1:${proxy.port}` } };
}

/** One Redis server for a test file, empty before each test. */
export function redisForFile(): () => RedisServer {
  let server: RedisServer | undefined;
  beforeAll(async () => {
    server = await startRedis();
  });
  beforeEach(() => server?.command("FLUSHALL"));
  afterAll(() => server?.close());
  return () => {
    if (server === undefined) throw new Error("Redis has not started");
    return server;
  };
}

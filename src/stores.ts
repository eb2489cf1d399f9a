/**
 * Opens the store that the settings name, with the ledger and the limiters that use it.
 */
import type { LimiterConfig } from "./ratelimit/limiter.ts";
import { SingleProcessLimiter } from "./ratelimit/limits/single-process-limiter.ts";
import { RedisPurse, PURSE_SCRIPTS } from "./ratelimit/limits/redis-script.ts";
import { SharedLimiter } from "./ratelimit/limits/shared-purse.ts";
import { createRedisCircuits } from "./ratelimit/circuits/redis-circuits.ts";
import { createMemoryLedger } from "./usage/sqlite-ledger.ts";
import { openLedgerOnDisk } from "./usage/full-disk.ts";
import { createRedisLedger } from "./usage/redis-ledger.ts";
import { Failures } from "./cache/recent-failures.ts";
import { isFailureOfUpstream } from "./cache/serve-or-fetch.ts";
import { createMemoryStore } from "./cache/store/memory.ts";
import { Tiers } from "./cache/store/tiered.ts";
import type { Context } from "./context.ts";
import { ENTRY_SCRIPTS, RedisStore } from "./cache/store/redis.ts";
import { SqliteStore } from "./cache/store/sqlite.ts";
import { createStatusTexts } from "./redis/replica-status.ts";
import { createCommandTimeout } from "./redis/command-timeout.ts";
import { watchEvictionPolicy } from "./redis/eviction.ts";
import { RedisService } from "./redis/redis.ts";
import { ReplicaLeases } from "./singleflight/replica-leases.ts";
import { CIRCUIT_STATES, type CircuitState, type StoreOperation, type Tier } from "./telemetry/events.ts";
import type { OriginName } from "./interface/resources.ts";
import type { Readings } from "./telemetry/metric-table.ts";
import { atMostEvery } from "./process/clock.ts";
import { createSeal } from "./process/seal.ts";
import { type Config, ConfigError } from "./config/config.ts";
import { createCopier, removeCopy } from "./sqlite/backup.ts";
import { UnusableData } from "./sqlite/files.ts";
import { dataOwnerOf } from "./config/data-owner.ts";
import { redisNamespaces } from "./query/key.ts";

/** The stores of answers, and the ledger, limiters and circuits that use the same files or Redis. */
export type Stores = ReturnType<typeof openStores>;

/**
 * Opens memory, and behind it Redis if it is set, else SQLite if `DATA_DIR` is set.
 * @throws {ConfigError} if the data directory cannot be used
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function openStores(context: Context) {
  const { config, clock } = context;
  const memory = createMemoryStore(config.cache.maxBytes, clock);
  const failures = new Failures();
  const backend =
    config.redis === null ? refusing(() => openAlone(context)) : openShared(config.redis, context, failures);
  const { store } = backend;
  const tiers = new Tiers(memory, store, clock);
  return {
    ...backend,
    memory,
    tiers,
    /** Keys whose load has recently failed, here or in another replica. */
    failures,
    all: store === undefined ? [memory] : [memory, store],
  };
}

/** Whether each call is stored in the ledger before it is sent; no series if the ledger is only in memory. */
type LedgersDurable = ReturnType<Readings["gateway_ledger_durable"]>;

/** For a single process: the budgets are in memory, the ledger and the answers in the SQLite file if there is one. */
function openAlone(context: Context) {
  const { config, clock, random, observer } = context;
  const { dataDir } = config;
  const warn = (): void => observer.warn(LEDGER_FULL, config.ledger);
  const onOverflow = atMostEvery(clock.monotonic, warn, Number.POSITIVE_INFINITY);
  const bounds = { ...config.ledger, clock, onOverflow };
  const store =
    dataDir === null
      ? undefined
      : new SqliteStore({
          ...config.cache,
          dataDir,
          owner: dataOwnerOf(config.upstream),
          maxBytes: config.cache.maxDiskBytes,
          clock,
          log: observer,
          ...measured("sqlite", context),
        });
  const onDisk = store && openLedgerOnDisk(store, { ...bounds, log: observer });
  const ledger = onDisk ?? createMemoryLedger(bounds);
  const replica = random.unique16();
  return {
    store,
    ledger,
    ledgers: (): LedgersDurable => (onDisk ? [[{ store: "sqlite" }, Number(onDisk.isDurable())]] : []),
    withCopy: store && createCopier(store.database, store.directory),
    async close() {
      onDisk?.close();
      await store?.close();
      if (dataDir !== null) removeCopy(dataDir);
    },
    limiterOf: (origin: OriginName, limits: LimiterConfig) =>
      new SingleProcessLimiter({ origin, config: limits, ledger, clock, process: replica }),
    circuitsOf: () => undefined,
    // There are no other replicas.
    claims: undefined,
    replicas: async () => [],
    statusTexts: undefined,
    evictionPolicy: () => undefined,
  };
}

const LEDGER_FULL =
  "The ledger has lost lines: it has as many as it may keep (maxRecords), so the oldest ones are deleted before their time " +
  "(retentionMs). Reports of that time count too few calls.";

const UNREADABLE = "Redis has values that are not from this gateway or belong to another private key.";

function openShared(redis: NonNullable<Config["redis"]>, context: Context, failures: Failures) {
  const { config, clock, random, observer, settings } = context;
  const { budget, cache } = redisNamespaces(dataOwnerOf(config.upstream), redis.keyPrefix);
  const service = new RedisService({
    namespace: budget,
    cache,
    replica: random.unique16(),
    seal: createSeal(context.keys.newest),
    connect: () => settings.current().redis ?? redis,
    scripts: { ...ENTRY_SCRIPTS, ...PURSE_SCRIPTS },
    clock,
    timeout: createCommandTimeout(redis.timeoutMs),
    probeIntervalMs: redis.probeIntervalMs,
    observer,
    ...measured("redis", context),
  });
  settings.onChange("redis", () => void service.renew());
  const eviction = watchEvictionPolicy(service);
  const warn = (times: number): void => observer.warn(UNREADABLE, { times });
  const onUnreadable = atMostEvery(clock.monotonic, warn);
  const store = new RedisStore(service, config.cache.retentionMs, onUnreadable);
  const claims = new ReplicaLeases(service, random.unique16, (key, problem) => {
    if (isFailureOfUpstream(problem)) failures.failed(key, problem, clock.monotonic());
  });
  service.bus.on("stored", ({ key }) => failures.succeeded(key));
  return {
    ...sharedLimits(service, context),
    store,
    ledgers: (): LedgersDurable => [[{ store: "redis" }, Number(service.isUp())]],
    withCopy: undefined,
    async close() {
      for (const part of [eviction, claims, store, service]) part.close();
    },
    claims,
    statusTexts: createStatusTexts(service),
    evictionPolicy: eviction.current,
  };
}

/** The limits, the ledger and the circuits that all replicas share. */
function sharedLimits(service: RedisService, { config, clock, observer, metrics }: Context) {
  const { namespace, replica } = service.options;
  const purseOf = (origin: OriginName): RedisPurse => new RedisPurse(service.run, namespace, origin);
  return {
    limiterOf(origin: OriginName, limits: LimiterConfig) {
      return new SharedLimiter({
        ...config.budget,
        ...observer,
        origin,
        config: limits,
        redis: purseOf(origin),
        clock,
        process: replica,
        timeout: service.options.timeout,
        ledger: config.ledger,
        dataLost: () => metrics.record("gateway_budget_data_lost_total", {}),
      });
    },
    ledger: createRedisLedger(purseOf),
    circuitsOf: (origin: OriginName) => createRedisCircuits(service, namespace, origin),
    /** The replicas that have a slot of the API's budget, according to Redis. Rejects if Redis does not answer. */
    replicas: purseOf("api").slots,
  };
}

/** @throws {ConfigError} if the data directory cannot be used */
function refusing<T>(open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (!(error instanceof UnusableData)) throw error;
    throw new ConfigError([`dataDir (DATA_DIR): ${error.message}`]);
  }
}

/** The metrics of a store. That of the breaker exists before the first fault. */
function measured(store: Tier, { metrics }: Context) {
  const onBreaker = (state: CircuitState): void =>
    metrics.record("gateway_store_breaker_state", { store }, CIRCUIT_STATES[state]);
  const onOperation = (operation: StoreOperation, durationMs: number): void =>
    metrics.record("gateway_store_operation_duration_seconds", { store, operation }, durationMs / 1000);
  onBreaker("closed");
  return { onBreaker, onOperation };
}

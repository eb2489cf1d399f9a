/**
 * Opens the store that the settings name, with the ledger and the limiters that use it.
 */
import { type SharedCircuits, unsharedCircuits } from "./ratelimit/circuits/circuits.ts";
import type { Limiter, LimiterConfig } from "./ratelimit/limiter.ts";
import { LocalLimiter } from "./ratelimit/limits/local-limiter.ts";
import { RedisPurse, PURSE_SCRIPTS, type ReplicaSlot } from "./ratelimit/limits/redis-script.ts";
import { SharedLimiter } from "./ratelimit/limits/shared-purse.ts";
import { createRedisCircuits } from "./ratelimit/circuits/redis-circuits.ts";
import { createLimiterLedger } from "./ratelimit/limits/redis-ledger.ts";
import type { LedgerReader } from "./usage/ledger-line.ts";
import { createMemoryLedger } from "./usage/sqlite-ledger.ts";
import { openLedgerOnDisk } from "./usage/full-disk.ts";
import { Failures } from "./cache/recent-failures.ts";
import { isFailureOfUpstream } from "./cache/serve-or-fetch.ts";
import { createMemoryStore, type MemoryStore } from "./cache/store/memory.ts";
import type { Store } from "./cache/store/port.ts";
import { Tiers } from "./cache/store/tiered.ts";
import type { Context } from "./context.ts";
import { createRedisStore } from "./cache/store/redis.ts";
import { createSqliteStore, type SqliteStore } from "./cache/store/sqlite.ts";
import { StatusTexts } from "./redis/replica-status.ts";
import { createCommandTimeout } from "./redis/command-timeout.ts";
import { type EvictionPolicy, watchEvictionPolicy } from "./redis/eviction.ts";
import { RedisService } from "./redis/redis.ts";
import { RedisClaims } from "./singleflight/redis-claims.ts";
import { CIRCUIT_STATES, type CircuitState, type StoreOperation, type Tier } from "./telemetry/events.ts";
import type { OriginName } from "./interface/resources.ts";
import type { Readings } from "./telemetry/metric-table.ts";
import { atMostEvery } from "./process/clock.ts";
import { createSeal } from "./process/seal.ts";
import { type Config, ConfigError } from "./config/config.ts";
import { createCopier, type WithCopy } from "./sqlite/backup.ts";
import { UnusableData } from "./sqlite/files.ts";
import { dataOwnerOf } from "./config/data-owner.ts";
import { type RedisNamespaces, redisNamespaces } from "./query/key.ts";

/** The store behind the memory of this process. */
interface Backend {
  /** `undefined`: memory only. */
  readonly store: Store | undefined;
  /** `undefined`: there are no other replicas. */
  readonly claims: RedisClaims | undefined;
  /** Creates the limiter of an origin. Called once for each origin. */
  readonly limiterOf: (origin: OriginName, config: LimiterConfig) => Limiter;
  readonly circuitsOf: (origin: OriginName) => SharedCircuits;
  /** The replicas that have a slot of the API's budget, according to Redis. Rejects if Redis does not answer. */
  readonly replicas: () => Promise<readonly ReplicaSlot[]>;
  /** The status of the other replicas; `undefined`: there are none. */
  readonly statusTexts: StatusTexts | undefined;
  /** The upstream calls of all replicas to all origins. */
  readonly ledger: LedgerReader;
  /** Whether each call is stored in the ledger before it is sent; no series if the ledger is only in memory. */
  readonly ledgers: Readings["gateway_ledger_durable"];
  readonly evictionPolicy: () => EvictionPolicy | undefined;
  /** Copies the SQLite file; `undefined`: there is none. */
  readonly withCopy: WithCopy | undefined;
  /** Writes all pending data, and closes the connections and files. Never rejects. */
  readonly close: () => Promise<void>;
}

/** The stores of answers: memory, and behind it Redis or SQLite if the settings name one. */
export interface Stores extends Backend {
  readonly memory: MemoryStore;
  readonly tiers: Tiers;
  /** Keys whose load has recently failed, here or in another replica. */
  readonly failures: Failures;
  readonly all: readonly Pick<Store, "tier" | "stats">[];
}

/** @throws {ConfigError} if the data directory cannot be used */
export function openStores(context: Context): Stores {
  const { config, clock } = context;
  const memory = createMemoryStore(config.cache.maxBytes, clock);
  const failures = new Failures();
  const backend = openBackend(context, failures);
  const { store } = backend;
  const tiers = new Tiers({ memory, store, clock });
  return { ...backend, memory, tiers, failures, all: store === undefined ? [memory] : [memory, store] };
}

/** Opens Redis if it is set, else SQLite if `DATA_DIR` is set, else only memory. */
function openBackend(context: Context, failures: Failures): Backend {
  const { redis, dataDir } = context.config;
  if (redis !== null) return openShared(redis, context, failures);
  const sqlite = dataDir === null ? undefined : openSqlite(dataDir, context);
  return openAlone(sqlite, context);
}

/** For a single process: the budgets are in memory, the ledger and the answers in the SQLite file if there is one. */
function openAlone(sqlite: SqliteStore | undefined, { config, clock, random, observer }: Context): Backend {
  let hasOverflown = false;
  const onOverflow = (): void => {
    if (!hasOverflown) observer.warn(LEDGER_FULL, {});
    hasOverflown = true;
  };
  const bounds = { ...config.ledger, clock, onOverflow };
  const onDisk = sqlite && refusing(() => openLedgerOnDisk({ ...bounds, ...sqlite, ...observer }));
  const ledger = onDisk ?? createMemoryLedger(bounds);
  const replica = random.unique16();
  return {
    store: sqlite,
    claims: undefined,
    statusTexts: undefined,
    ledger,
    ledgers: () =>
      config.dataDir === null ? [] : [[{ store: "sqlite" }, Number(onDisk?.isDurable() ?? false)]],
    async close() {
      onDisk?.close();
      await sqlite?.close();
    },
    evictionPolicy: () => undefined,
    withCopy: sqlite && createCopier(sqlite.database, sqlite.directory),
    limiterOf: (origin, limits) =>
      new LocalLimiter({ origin, config: limits, ledger, clock, process: replica }),
    circuitsOf: unsharedCircuits,
    replicas: async () => [],
  };
}

const LEDGER_FULL =
  "The ledger has lost lines: there are more than ledger.maxRecords, so the oldest ones are deleted before " +
  "ledger.retention. Reports of that time count too few calls.";

const UNREADABLE = "Redis has values that are not from this gateway or belong to another private key.";
const WARN_EVERY_MS = 60_000;

function openShared(redis: NonNullable<Config["redis"]>, context: Context, failures: Failures): Backend {
  const { config, clock, random, observer, settings } = context;
  const replica = random.unique16();
  const namespaces = redisNamespaces(dataOwnerOf(config.upstream), redis.keyPrefix);
  const seal = createSeal(context.keys.newest);
  const service = new RedisService({
    namespace: namespaces.budget,
    cache: namespaces.cache,
    replica,
    seal,
    connect: () => settings.current().redis ?? redis,
    clock,
    timeout: createCommandTimeout(redis.timeoutMs),
    probeIntervalMs: redis.probeIntervalMs,
    observer,
    ...measured("redis", context),
  });
  settings.onChange("redis", service.renewAll);
  const eviction = watchEvictionPolicy(service, namespaces.budget, clock, observer.warn);
  const common = { redis: service, namespace: namespaces.cache, clock, replica, seal };
  const store = createRedisStore({
    ...common,
    retentionMs: config.cache.retentionMs,
    onUnreadable: atMostEvery(WARN_EVERY_MS, clock.monotonic, (times) =>
      observer.warn(UNREADABLE, { times }),
    ),
  });
  const claims = new RedisClaims({
    ...common,
    newHolder: random.unique16,
    onFailed(key, problem) {
      if (isFailureOfUpstream(problem)) failures.failed(key, problem, clock.monotonic());
    },
  });
  return {
    store,
    claims,
    statusTexts: new StatusTexts(common),
    ledger: createLimiterLedger(service.run, namespaces.budget),
    ledgers: () => [[{ store: "redis" }, Number(service.isUp())]],
    evictionPolicy: eviction.current,
    withCopy: undefined,
    async close() {
      for (const part of [eviction, claims, store, service]) part.close();
    },
    ...sharedLimits(service, replica, namespaces, context),
  };
}

/** The limits and circuits that all replicas share. */
function sharedLimits(
  service: RedisService,
  replica: string,
  namespaces: RedisNamespaces,
  { config, clock, observer, metrics }: Context,
): Pick<Backend, "limiterOf" | "circuitsOf" | "replicas"> {
  const purseOf = (origin: OriginName): RedisPurse => new RedisPurse(service.run, namespaces.budget, origin);
  service.defineScripts(PURSE_SCRIPTS);
  return {
    limiterOf(origin, limits) {
      const limiter = new SharedLimiter({
        ...config.budget,
        ...observer,
        origin,
        config: limits,
        redis: purseOf(origin),
        clock,
        process: replica,
        timeoutMs: service.timeout.ms,
        mostTimeoutMs: service.timeout.mostMs,
        ledger: config.ledger,
        dataLost: () => metrics.record("gateway_budget_data_lost_total", {}),
      });
      service.on("recovery", limiter.check);
      return limiter;
    },
    circuitsOf: (origin) => createRedisCircuits({ redis: service, namespace: namespaces.budget, origin }),
    replicas: purseOf("api").slots,
  };
}

function openSqlite(dataDir: string, context: Context): SqliteStore {
  const { config, clock, observer } = context;
  return refusing(() =>
    createSqliteStore({
      dataDir,
      owner: dataOwnerOf(config.upstream),
      maxBytes: config.cache.maxDiskBytes,
      retentionMs: config.cache.retentionMs,
      clock,
      log: observer,
      ...measured("sqlite", context),
    }),
  );
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

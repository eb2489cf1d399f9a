/**
 * Opens the store that the settings name, with the ledger and the limiters that use it.
 */
import { type SharedCircuits, unsharedCircuits } from "./ratelimit/circuits.ts";
import type { Limiter, LimiterConfig } from "./ratelimit/limiter.ts";
import { createLocalLimiter } from "./ratelimit/local-limiter.ts";
import { oldReplicasAreGone } from "./ratelimit/old-protocol.ts";
import { createRedisCircuits } from "./ratelimit/redis-circuits.ts";
import { createRedisLimiter, LIMITER_SCRIPTS, type ReplicaSlot } from "./ratelimit/redis-limiter.ts";
import { createSharedLimiter, type SharedLimiter } from "./ratelimit/shared-limiter.ts";
import { createLimiterLedger } from "./usage/redis-ledger.ts";
import type { LedgerReader } from "./usage/ledger.ts";
import { createMemoryLedger } from "./usage/sqlite-ledger.ts";
import { openLedgerOnDisk } from "./usage/ledger-on-disk.ts";
import type { Store } from "./cache/store/port.ts";
import { createRedisStore } from "./cache/store/redis.ts";
import { createSqliteStore, type SqliteStore } from "./cache/store/sqlite.ts";
import type { Problem } from "./errors.ts";
import { type Board, createBoard } from "./redis/board.ts";
import { createRedisService, type RedisService } from "./redis/service.ts";
import { createRedisClaims } from "./singleflight/redis-claims.ts";
import type { CircuitState, Claims, Observer, OriginName, StoreOperation, Tier } from "./types.ts";
import type { Metrics, MetricSources } from "./telemetry/metrics.ts";
import { atMostEvery, type Clock } from "./process/clock.ts";
import { createSeal } from "./process/seal.ts";
import { type Config, ConfigError } from "./config/config.ts";
import type { PrivateKeys } from "./config/private-key.ts";
import type { SecretFiles } from "./config/secret-files.ts";
import { UnusableData } from "./sqlite/files.ts";
import type { Random } from "./process/random.ts";
import { identityOf, redisNamespaces } from "./identity.ts";
import { NAMESPACE } from "./query/key.ts";

export interface OpenBackendOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
  readonly metrics: Metrics;
  readonly secretFiles: Pick<SecretFiles, "current" | "onChange">;
  readonly keys: Pick<PrivateKeys, "current">;
  /** Called when the flight of a key failed, in this or another replica. */
  readonly onFailed: (key: string, problem: Problem) => void;
}

/** The store behind the memory of this process. */
export interface OpenedBackend {
  /** `undefined`: memory only. */
  readonly store: Store | undefined;
  /** `undefined`: there are no other replicas. */
  readonly claims: Claims | undefined;
  /** Creates the limiter of an origin. Called once for each origin. */
  readonly limiterOf: (origin: OriginName, config: LimiterConfig) => Limiter;
  readonly circuitsOf: (origin: OriginName) => SharedCircuits;
  /**
   * The replicas that have a slot of the API's budget, according to Redis. Rejects if Redis does not answer.
   * @param dead the name of a replica or the number of a slot whose process has ended, according to an operator
   */
  readonly replicas: (dead?: string) => Promise<readonly ReplicaSlot[]>;
  /** Creates a board on which replicas share texts; `undefined`: there are no other replicas. */
  readonly createBoard: ((name: string) => Board) | undefined;
  /**
   * Call it with the address of the admin port when the port is open. This port closes after the budgets. So a process that
   * can open the same address knows that its predecessor sends no more calls.
   */
  readonly listensAt: (address: string | undefined) => void;
  /** The upstream calls of all replicas to all origins. */
  readonly ledger: LedgerReader;
  /** Whether each call is stored in the ledger before it is sent; empty if the ledger is only in memory. */
  readonly ledgers: MetricSources["ledgers"];
  /** Writes all pending data, and closes the connections and files. Never rejects. */
  readonly close: () => Promise<void>;
}

/** Opens Redis if it is set, else SQLite if `DATA_DIR` is set, else only memory. */
export function openBackend(options: OpenBackendOptions): OpenedBackend {
  const { redis, dataDir } = options.config;
  if (redis !== null) return openShared(redis, options);
  const sqlite = dataDir === null ? undefined : openSqlite(dataDir, options);
  return openAlone(sqlite, options);
}

/** For a single process: the budgets are in memory, the ledger and the answers in the SQLite file if there is one. */
function openAlone(
  sqlite: SqliteStore | undefined,
  { config, clock, random, observer }: OpenBackendOptions,
): OpenedBackend {
  const bounds = { ...config.ledger, clock, onOverflow: warnOnce(observer.warn, LEDGER_FULL) };
  const onDisk = sqlite && refusing(() => openLedgerOnDisk({ ...bounds, ...sqlite, ...observer }));
  const ledger = onDisk ?? createMemoryLedger(bounds);
  const replica = random.unique16();
  return {
    store: sqlite,
    claims: undefined,
    createBoard: undefined,
    ledger,
    ledgers: () =>
      config.dataDir === null ? [] : [{ store: "sqlite", isDurable: onDisk?.isDurable() ?? false }],
    async close() {
      onDisk?.close();
      await sqlite?.close();
    },
    limiterOf: (origin, limits) =>
      createLocalLimiter({ origin, config: limits, ledger, clock, process: replica }),
    circuitsOf: unsharedCircuits,
    replicas: async () => [],
    listensAt: () => undefined,
  };
}

const LEDGER_FULL =
  "The ledger has lost lines: there are more than ledger.maxRecords, so the oldest ones are deleted before " +
  "ledger.retention. Reports of that time count too few calls.";

function warnOnce(warn: Observer["warn"], message: string): () => void {
  let hasWarned = false;
  return () => {
    if (!hasWarned) warn(message, {});
    hasWarned = true;
  };
}

const WARN_EVERY_MS = 60_000;

function openShared(redis: NonNullable<Config["redis"]>, options: OpenBackendOptions): OpenedBackend {
  const { config, clock, random, observer, metrics, secretFiles } = options;
  let state: CircuitState = "closed";
  const onBreaker = (next: CircuitState): void => {
    state = next;
    metrics.breakerState("redis", next);
  };
  // Sets the metric, so that it exists before the first fault.
  onBreaker(state);
  const replica = random.unique16();
  const namespaces = redisNamespaces(identityOf(config.upstream), redis.keyPrefix);
  const namespace = namespaces.cache;
  const service = createRedisService({
    connect: () => secretFiles.current().redis ?? redis,
    clock,
    commandTimeoutMs: redis.timeoutMs,
    probeIntervalMs: redis.probeIntervalMs,
    observer,
    onOperation: timed("redis", metrics),
    onBreaker,
  });
  secretFiles.onChange("redis", service.renew);
  const seal = createSeal(options.keys.current);
  const store = createRedisStore({
    redis: service,
    namespace,
    clock,
    replica,
    retentionMs: config.cache.retentionMs,
    seal,
    onUnreadable: atMostEvery(WARN_EVERY_MS, clock.monotonic, (times) =>
      observer.warn("Values in Redis are not answers of this gateway, or belong to another private key.", {
        times,
      }),
    ),
  });
  const claims = createRedisClaims({
    redis: service,
    clock,
    namespace,
    newHolder: random.unique16,
    seal,
    onFailed: options.onFailed,
  });
  return {
    store,
    claims,
    createBoard: (name) => createBoard({ redis: service, clock, namespace, name, process: replica, seal }),
    ledger: createLimiterLedger(service.run, namespaces.budget),
    ledgers: () => [{ store: "redis", isDurable: state === "closed" }],
    async close() {
      for (const part of [claims, store, service]) part.close();
    },
    ...sharedLimits(service, replica, namespaces.budget, options),
  };
}

/** The limits and circuits that all replicas share. */
function sharedLimits(
  service: RedisService,
  replica: string,
  namespace: string,
  { config, clock, observer }: OpenBackendOptions,
): Pick<OpenedBackend, "limiterOf" | "circuitsOf" | "replicas" | "listensAt"> {
  const { replicas, degradedReserve, degradedForMs } = config.budget;
  const timeoutMs = config.redis?.timeoutMs ?? 0;
  const limiters = new Map<OriginName, SharedLimiter>();
  let ownAddress: string | undefined;
  service.defineScripts(LIMITER_SCRIPTS);
  return {
    limiterOf(origin, limits) {
      const windowMs = Math.max(...limits.windows.map((window) => window.windowMs));
      const limiter = createSharedLimiter({
        origin,
        config: limits,
        ask: createRedisLimiter(service.run, namespace, origin),
        clock,
        process: replica,
        address: () => ownAddress,
        replicas,
        degradedReserve,
        degradedForMs,
        leaseMs: SLOT_LEASE_MS,
        timeoutMs,
        ledger: config.ledger,
        admission: () =>
          oldReplicasAreGone({
            run: service.run,
            namespace: NAMESPACE,
            origin,
            windowMs,
            degradedForMs,
            clock,
            warn: observer.warn,
          }),
        ...observer,
      });
      limiters.set(origin, limiter);
      service.subscribe({ channels: [], onMessage: () => undefined, onRecovery: limiter.check });
      return limiter;
    },
    circuitsOf: (origin) => createRedisCircuits({ redis: service, namespace, origin, process: replica }),
    async replicas(dead) {
      return (await limiters.get("api")?.replicas(dead)) ?? [];
    },
    listensAt(address) {
      ownAddress = address;
    },
  };
}

/** A slot of the budget is reserved for this long after the last message of its replica. */
const SLOT_LEASE_MS = 1_000;

function openSqlite(dataDir: string, options: OpenBackendOptions): SqliteStore {
  const { config, clock, observer, metrics } = options;
  const onBreaker = (state: CircuitState): void => metrics.breakerState("sqlite", state);
  onBreaker("closed");
  return refusing(() =>
    createSqliteStore({
      dataDir,
      owner: identityOf(config.upstream),
      maxBytes: config.cache.maxDiskBytes,
      retentionMs: config.cache.retentionMs,
      clock,
      log: observer,
      onOperation: timed("sqlite", metrics),
      onBreaker,
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

function timed(tier: Tier, metrics: Metrics): (operation: StoreOperation, durationMs: number) => void {
  return (operation, durationMs) => metrics.storeOperation(tier, operation, durationMs);
}

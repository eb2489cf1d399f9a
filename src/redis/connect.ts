/**
 * Creates ioredis clients from the settings, for a single server, a Cluster or Sentinel. ioredis itself reconnects.
 * src/redis/redis.ts explains when a client is replaced instead.
 */
import { Socket } from "node:net";

import { AbstractConnector, Cluster, type ClusterOptions, Redis, type RedisOptions } from "ioredis";

import type { Config } from "../config/config.ts";
import { verifiedTls } from "../process/tls.ts";

/** A client for commands. */
export type RedisClient = Redis | Cluster;

type RedisConfig = NonNullable<Config["redis"]>;

/** The settings of a connection. `password` overrides the password in the URL. */
export type RedisSettings = Pick<RedisConfig, "url" | "mode" | "nodes"> & Partial<RedisConfig>;

/** Lua scripts by the name of the client method that runs them. Without `numberOfKeys`, each call passes it first. */
export type RedisScripts = Record<string, { readonly lua: string; readonly numberOfKeys?: number }>;

const DEFAULT_PORT = 6379;
/** The limit for connecting, without TLS. */
const CONNECT_TIMEOUT_MS = 1_000;

const EVERY_CONNECTION = {
  connectionName: "property-gateway",
  disableClientInfo: true,
  connectTimeout: CONNECT_TIMEOUT_MS,
  // The gateway destroys a connection if the server does not close its side within these milliseconds.
  disconnectTimeout: 100,
  autoResendUnfulfilledCommands: false,
  // src/redis/subscriber.ts subscribes again itself, because ioredis does not report when it has subscribed again.
  autoResubscribe: false,
};

const CLUSTER: ClusterOptions = {
  clusterRetryStrategy: retryStrategy,
  // The pause in milliseconds before the client retries a node that it has just lost.
  retryDelayOnFailover: 20,
  retryDelayOnTryAgain: 20,
  // Commands fail immediately when the Cluster is down.
  retryDelayOnClusterDown: 0,
  // If a node does not send the slot table within these milliseconds, the client asks the next node.
  slotsRefreshTimeout: 300,
  // Keeps host names. By default ioredis connects to IP addresses, but the certificates of managed Clusters name hosts.
  dnsLookup: (host, done) => done(null, host),
  // ioredis connects to a node when a command first needs it; the command waits in the offline queue.
  // Auto-pipelining stays off, because ioredis does not handle all MOVED replies in a pipeline while slots move.
  enableOfflineQueue: true,
};

/** @returns the pause before the next attempt to connect, in milliseconds */
function retryStrategy(attempt: number): number {
  return Math.min(10 * 2 ** (attempt - 1), 500);
}

/**
 * ioredis listens for only one error of each connection. A TLS connection that is closed during its handshake may emit two,
 * and an error without a listener ends the process. So this adds a permanent listener when ioredis closes a connection.
 */
// oxlint-disable-next-line typescript/unbound-method -- It is called with the connector below.
const { disconnect } = AbstractConnector.prototype;
AbstractConnector.prototype.disconnect = function close(): void {
  const stream: unknown = Reflect.get(this, "stream");
  if (stream instanceof Socket) stream.on("error", () => undefined);
  disconnect.call(this);
};

export type RedisClients = ReturnType<typeof createRedisClients>;

/**
 * Creates clients. They connect immediately, and reconnect when they lose their server. `forCommands` and `forMessages` throw if
 * the URL is malformed.
 * @param current returns the settings, for each new client
 * @param scripts the scripts of each client for commands
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createRedisClients(current: () => RedisSettings, scripts: RedisScripts = {}) {
  let lastError: (Error & { code?: string }) | undefined;

  /** Commands wait for a connection, and fail as soon as it is lost or an attempt to connect fails. */
  function single(options: Omit<RedisOptions, "replyMapping">): Redis {
    return new Redis({ retryStrategy, maxRetriesPerRequest: 0, ...options })
      .on("error", (error) => (lastError = error))
      .on("ready", () => (lastError = undefined));
  }

  return {
    /** Why the last connection failed, if it did. The errors of commands usually say only that the connection is closed. */
    lastError: (): typeof lastError => lastError,
    /** A client for commands. */
    forCommands(): RedisClient {
      const { mode, seeds, server, options } = planOf(current());
      if (mode !== "cluster") return single({ ...options, ...server, scripts, enableAutoPipelining: true });
      // Ignore its errors: the subscriber connects to the same nodes, and its errors say more.
      return new Cluster(seeds, { ...CLUSTER, scripts, redisOptions: options }).on("error", () => undefined);
    },
    /**
     * A client for subscriptions. On a Cluster it uses one node, and emits `end` when it loses that node.
     * @param commands knows the nodes of a Cluster. Any of them works, because a published message reaches every node.
     * @param attempt a counter, so that each attempt uses the next node
     */
    forMessages(commands: RedisClient, attempt: number): Redis {
      const { mode, seeds, server, options } = planOf(current());
      if (mode !== "cluster") return single({ ...options, ...server });
      const known = commands instanceof Cluster ? commands.nodes() : [];
      const nodes = known.map(({ options: { host = "", port = DEFAULT_PORT } }) => ({ host, port }));
      const candidates = nodes.length > 0 ? nodes : seeds;
      return single({ ...options, ...candidates[attempt % candidates.length], retryStrategy: () => null });
    },
  };
}

/** @returns the options of every connection, and where it goes: to `seeds` with a Cluster, else to `server` */
function planOf(settings: RedisSettings) {
  const { url, mode, nodes, ca, pair, ...own } = settings;
  const parsed = URL.parse(url.reveal());
  // `URL.parse`, because the error of `new URL` contains the password.
  if (parsed === null) throw new Error("the address of Redis is not a URL");
  const { protocol, hostname, port, pathname } = parsed;
  const address = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || DEFAULT_PORT) };
  const username = decodeURIComponent(parsed.username);
  const password = own.password?.reveal() ?? decodeURIComponent(parsed.password);
  const certificate = pair && { cert: pair.cert, key: pair.key.reveal() };
  const tls = protocol === "rediss:" && { ...verifiedTls(ca), ...certificate };
  return {
    mode,
    seeds: nodes.length > 0 ? [...nodes] : [address],
    server: mode === "sentinel" ? throughSentinel(settings, tls) : address,
    options: {
      ...EVERY_CONNECTION,
      ...(username !== "" && { username }),
      ...(password !== "" && { password }),
      ...(mode !== "cluster" && pathname.length > 1 && { db: Number(pathname.slice(1)) }),
      ...(tls && { tls }),
    },
  };
}

function throughSentinel({ sentinel }: RedisSettings, tls: RedisOptions["tls"] | false) {
  return {
    sentinels: [...(sentinel?.nodes ?? [])],
    name: sentinel?.name ?? "",
    sentinelCommandTimeout: CONNECT_TIMEOUT_MS,
    sentinelRetryStrategy: retryStrategy,
    ...(sentinel?.password && { sentinelPassword: sentinel.password.reveal() }),
    ...(tls && { enableTLSForSentinelMode: true, sentinelTLS: tls }),
  };
}

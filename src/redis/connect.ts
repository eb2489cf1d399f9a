/**
 * Redis connections: what the settings say, as ioredis takes it, for a single server, a Cluster or Sentinel.
 *
 * No client made here reconnects by itself: src/redis/connection.ts replaces it as a whole, which is
 * the same for all three kinds and leaves nothing half alive behind.
 */
import { Cluster, Redis, type RedisOptions } from "ioredis";

import type { Secret } from "../config/secret.ts";
import { verifiedTls } from "../tls.ts";

/** A connection that takes commands. */
export type RedisClient = Redis | Cluster;

export interface RedisAddress {
  readonly host: string;
  readonly port: number;
}

export interface RedisSettings {
  /** `redis://` or `rediss://`, with user, password and (not on a Cluster) database. */
  readonly url: string | Secret;
  readonly mode: "single" | "cluster" | "sentinel";
  /** Nodes of a Cluster to begin with; where there are none, the URL's. */
  readonly nodes: readonly RedisAddress[];
  /** Where the Sentinels are, and what they call the master. The URL's credentials are the master's. */
  readonly sentinel?: { readonly name: string; readonly nodes: readonly RedisAddress[] } | null;
  /** The certificate authorities to trust in place of Node's own, as PEM. */
  readonly ca?: string | null;
}

/** Lua scripts by the name of the method that runs them; without a number of keys, each call begins with it. */
export type RedisScripts = Readonly<Record<string, { readonly lua: string; readonly numberOfKeys?: number }>>;

const DEFAULT_PORT = 6379;
/** How long connecting, TLS not included, may take. */
const CONNECT_TIMEOUT_MS = 1_000;
/** How long a server that no longer answers is given to close its side. */
const DISCONNECT_TIMEOUT_MS = 100;
/** What a Cluster client waits before it tries a node again that was just lost. */
const CLUSTER_RETRY_MS = 20;
/** How long one node of a Cluster has to say which node holds what, before the next is asked. */
const CLUSTER_MAP_TIMEOUT_MS = 300;

/** Makes clients that are connecting; each emits `ready`, and `end` when it is of no use any more. */
export interface RedisFactory {
  /** A client to give commands to. */
  readonly client: () => RedisClient;
  /**
   * A client to subscribe with.
   * @param nodes the nodes of a Cluster, as far as they are known; ordinary messages reach every node
   * @param attempt counts up, so that another node is tried next
   */
  readonly subscriber: (nodes: readonly RedisAddress[], attempt: number) => Redis;
}

/** @throws where the settings cannot be used at all: a malformed URL */
export function redisFactory(settings: RedisSettings, scripts: RedisScripts): RedisFactory {
  const { mode } = settings;
  const { address, ...options } = optionsOf(settings);
  const seeds = settings.nodes.length > 0 ? [...settings.nodes] : [address];
  const where = mode === "sentinel" ? throughSentinel(settings, options.tls) : address;
  return {
    client: () =>
      mode === "cluster"
        ? clusterClient(seeds, options, scripts)
        : new Redis({ ...options, ...where, scripts, enableAutoPipelining: true, enableOfflineQueue: false }),
    subscriber(nodes, attempt) {
      const candidates = nodes.length > 0 ? nodes : seeds;
      return new Redis({
        ...options,
        ...(mode === "cluster" ? candidates[attempt % candidates.length] : where),
      });
    },
  };
}

/** The nodes of a Cluster that a client knows. */
export function knownNodes(client: RedisClient | undefined): RedisAddress[] {
  if (!(client instanceof Cluster)) return [];
  return client
    .nodes()
    .flatMap(({ options: { host, port } }) =>
      host !== undefined && port !== undefined ? [{ host, port }] : [],
    );
}

/** ioredis' constructors do not take its own option type where `undefined` is not the same as absent. */
type ClientOptions = Omit<RedisOptions, "replyMapping">;
type Options = Omit<ReturnType<typeof optionsOf>, "address">;

function optionsOf({ url, mode, ca }: RedisSettings) {
  const parsed = URL.parse(typeof url === "string" ? url : url.reveal());
  // Not the error that URL throws: it holds the text, and so the password.
  if (parsed === null) throw new Error("the address of Redis is not a URL");
  const { protocol, hostname, port, username, password, pathname } = parsed;
  return {
    address: { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? DEFAULT_PORT : Number(port) },
    ...(username !== "" && { username: decodeURIComponent(username) }),
    ...(password !== "" && { password: decodeURIComponent(password) }),
    ...(mode !== "cluster" && pathname.length > 1 && { db: Number(pathname.slice(1)) }),
    ...(protocol === "rediss:" && { tls: verifiedTls(ca) }),
    connectionName: "property-gateway",
    disableClientInfo: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    retryStrategy: () => null,
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
  } satisfies ClientOptions & { address: RedisAddress };
}

function throughSentinel({ sentinel }: RedisSettings, tls: Options["tls"]): ClientOptions {
  return {
    sentinels: [...(sentinel?.nodes ?? [])],
    name: sentinel?.name ?? "",
    sentinelCommandTimeout: CONNECT_TIMEOUT_MS,
    // All were asked in vain: the caller begins anew.
    sentinelRetryStrategy: () => null,
    ...(tls !== undefined && { enableTLSForSentinelMode: true, sentinelTLS: tls }),
  };
}

function clusterClient(seeds: RedisAddress[], options: Options, scripts: RedisScripts): Cluster {
  const { retryStrategy: _, ...nodeOptions } = options;
  return new Cluster(seeds, {
    clusterRetryStrategy: () => null,
    retryDelayOnFailover: CLUSTER_RETRY_MS,
    retryDelayOnTryAgain: CLUSTER_RETRY_MS,
    // A Cluster that is down says so at once.
    retryDelayOnClusterDown: 0,
    slotsRefreshTimeout: CLUSTER_MAP_TIMEOUT_MS,
    // A node is connected to when it is first needed: what needs it waits there. No auto-pipelining
    // either: of a pipeline whose slots are moving, ioredis hands some MOVED answers to the caller.
    enableOfflineQueue: true,
    scripts,
    redisOptions: nodeOptions,
  });
}

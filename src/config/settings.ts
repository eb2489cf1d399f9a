/**
 * Declares every setting once. `setting.ts` explains declarations. `npm run generate` writes config/default.yaml, the JSON
 * Schema and the chart's schema from these declarations.
 */
import * as z from "zod";

import { apps, budget } from "./settings/budget.ts";
import { cache, warm } from "./settings/cache.ts";
import { admin, server } from "./settings/server.ts";
import { query, upstream } from "./settings/upstream.ts";
import * as shape from "./settings/shapes.ts";
import { defaultsOf, optional, setting, type Setting, settingsOf } from "./settings/setting.ts";

const redis = z.strictObject({
  /** The address of the Redis that all replicas share, with user and password. */
  url: setting(shape.redisUrl, { env: "REDIS_URL" }),
  /**
   * The path of a file that holds only the password at Redis. It wins over the one in redis.url. Set either this or
   * REDIS_PASSWORD.
   */
  passwordFile: shape.secretFile("password", "REDIS_PASSWORD"),
  /** How Redis runs. */
  mode: setting(shape.oneOf("single", "cluster", "sentinel"), { default: "single" }),
  /** The first nodes of a Cluster, each as host:port. Empty means the node in redis.url. */
  nodes: shape.listOf(shape.address, "nodes, each as host:port"),
  sentinel: z.strictObject({
    /** The name by which the Sentinels know the master. */
    master: setting(optional(shape.text), { expected: "the name of the master" }),
    /** The Sentinels, each as host:port. */
    nodes: shape.listOf(shape.address, "Sentinels, each as host:port"),
    /** The path of a file that holds only the password at the Sentinels. Set either this or REDIS_SENTINEL_PASSWORD. */
    passwordFile: shape.secretFile("password", "REDIS_SENTINEL_PASSWORD"),
  }),
  /** A PEM file with the certificate authorities for rediss, in place of Node's own. */
  caFile: setting(shape.optionalPath, { env: "REDIS_CA_FILE" }),
  /** A PEM file with the certificate that the gateway shows to Redis (rediss), with its chain. */
  certFile: setting(shape.optionalPath, { env: "REDIS_CERT_FILE" }),
  /** A PEM file with the private key of certFile, not encrypted. */
  keyFile: setting(shape.optionalPath, { env: "REDIS_KEY_FILE" }),
  /** The beginning of every key and channel, for example for an access rule of a shared Redis. */
  keyPrefix: setting(z.string().regex(/^[\w.:-]{0,64}$/), {
    default: "",
    env: "REDIS_KEY_PREFIX",
    expected: "at most 64 letters, digits, '_', '-', '.' or ':'",
  }),
  /**
   * The longest time that a Redis command may take. Unset: four times the 99th percentile of the measured round trips, from
   * 50ms to 1s, and 250ms before the first one.
   */
  timeoutMs: optional(shape.duration()),
});

export const settingsSchema = z.strictObject({
  server,
  admin,
  upstream,
  query,
  apps,
  cache,
  warm,
  pages: z.strictObject({
    /** on: pages of a search are cut from blocks of 500 records. off: each page is fetched by itself. */
    fold: setting(shape.oneOf("on", "off"), { default: "on", env: "PAGES_FOLD", reloadable: true }),
  }),
  budget,
  redis,
  /** The directory for answers and the ledger. Empty keeps both in memory only. It is not used with Redis. */
  dataDir: setting(shape.optionalPath, {
    default: "./data",
    env: "DATA_DIR",
    emptyEnv: true,
    expected: "the path of a directory",
  }),
  /**
   * Whether the gateway reloads the file that CONFIG_FILE names when it has changed. Otherwise it waits for SIGHUP or
   * `reload`.
   */
  watchSettings: setting(shape.flag, { default: false, env: "WATCH_SETTINGS" }),
  metrics: z.strictObject({
    /**
     * How many apps the metrics name: the listed apps with the largest weights, then the first others. The rest counts as
     * other.
     */
    apps: setting(shape.integer(0, 10_000), { default: 100, reloadable: true }),
  }),
  log: z.strictObject({
    /** The lowest level of events in the log. silent logs nothing, not even requests. */
    level: setting(shape.oneOf("trace", "debug", "info", "warn", "error", "silent"), {
      default: "info",
      env: "LOG_LEVEL",
      reloadable: true,
    }),
    /**
     * Which requests and calls have a line in the log. on: all. sampled: all, but only one of 100 cache hits. errors: those
     * with status 400 or higher, or without an answer. off: none.
     */
    access: setting(shape.oneOf("on", "off", "sampled", "errors"), {
      default: "sampled",
      env: "LOG_ACCESS",
      reloadable: true,
    }),
  }),
});

/** All settings, in their order. */
export const SETTINGS: readonly Setting[] = settingsOf(settingsSchema);

/** The defaults, as people write them. */
export const DEFAULTS: Readonly<Record<string, unknown>> = defaultsOf(settingsSchema);

/** The settings after reading: numbers in milliseconds and bytes, secrets wrapped. */
export type Settings = z.output<typeof settingsSchema>;

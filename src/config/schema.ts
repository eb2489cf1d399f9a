/**
 * Declares every setting once. `setting.ts` explains declarations. `npm run generate` writes config/default.yaml, the JSON
 * Schema and the chart's schema from these declarations.
 */
import * as z from "zod";

import { apps, budget } from "./schema/budget.ts";
import { cache, warm } from "./schema/cache.ts";
import { admin, server } from "./schema/server.ts";
import { query, upstream } from "./schema/upstream.ts";
import * as shape from "./schema/shapes.ts";
import { defaultsOf, optional, setting, type Setting, settingsOf } from "./schema/setting.ts";

const redis = z.strictObject({
  url: setting(shape.redisUrl, "The address of the Redis that all replicas share, with user and password.", {
    env: "REDIS_URL",
  }),
  passwordFile: setting(
    shape.secretFile,
    "The path of a file that holds only the password at Redis. It wins over the one in redis.url. Set either this or REDIS_PASSWORD.",
    { env: "REDIS_PASSWORD_FILE", secretEnv: "REDIS_PASSWORD" },
  ),
  mode: setting(shape.oneOf("single", "cluster", "sentinel"), "How Redis runs.", { default: "single" }),
  nodes: setting(
    z.array(setting(shape.address, "One node, as host:port.")),
    "The first nodes of a Cluster, each as host:port. Empty means the node in redis.url.",
    { default: [], expected: "a list of nodes, each as host:port" },
  ),
  sentinel: z.strictObject({
    master: setting(optional(shape.text), "The name by which the Sentinels know the master.", {
      expected: "the name of the master",
    }),
    nodes: setting(
      z.array(setting(shape.address, "One Sentinel, as host:port.")),
      "The Sentinels, each as host:port.",
      { default: [], expected: "a list of Sentinels, each as host:port" },
    ),
    passwordFile: setting(
      shape.secretFile,
      "The path of a file that holds only the password at the Sentinels. Set either this or REDIS_SENTINEL_PASSWORD.",
      { env: "REDIS_SENTINEL_PASSWORD_FILE", secretEnv: "REDIS_SENTINEL_PASSWORD" },
    ),
  }),
  caFile: setting(
    shape.optionalPath,
    "A PEM file with the certificate authorities for rediss, in place of Node's own.",
    { env: "REDIS_CA_FILE" },
  ),
  certFile: setting(
    shape.optionalPath,
    "A PEM file with the certificate that the gateway shows to Redis (rediss), with its chain.",
    { env: "REDIS_CERT_FILE" },
  ),
  keyFile: setting(shape.optionalPath, "A PEM file with the private key of certFile, not encrypted.", {
    env: "REDIS_KEY_FILE",
  }),
  keyPrefix: setting(
    z.string().regex(/^[\w.:-]{0,64}$/),
    "The beginning of every key and channel, for example for an access rule of a shared Redis.",
    { default: "", env: "REDIS_KEY_PREFIX", expected: "at most 64 letters, digits, '_', '-', '.' or ':'" },
  ),
  timeoutMs: setting(
    optional(shape.duration()),
    "The longest time that a Redis command may take. Unset: four times the 99th percentile of the measured round trips, from 50ms to 1s.",
  ),
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
    fold: setting(
      shape.oneOf("on", "off"),
      "on: pages of a search are cut from blocks of 500 records. off: each page is fetched by itself.",
      { default: "on", env: "PAGES_FOLD", reloadable: true },
    ),
  }),
  budget,
  redis,
  dataDir: setting(
    shape.optionalPath,
    "The directory for answers and the ledger. Empty keeps both in memory only. It is not used with Redis.",
    { default: "./data", env: "DATA_DIR", emptyEnv: true, expected: "the path of a directory" },
  ),
  watchSettings: setting(
    shape.flag,
    "Whether the gateway reloads the file that CONFIG_FILE names when it has changed. Otherwise it waits for SIGHUP or `reload`.",
    { default: false, env: "WATCH_SETTINGS" },
  ),
  metrics: z.strictObject({
    apps: setting(
      shape.integer(0, 10_000),
      "How many apps the metrics name: the listed apps with the largest weights, then the first others. The rest counts as other.",
      { default: 100, reloadable: true },
    ),
  }),
  log: z.strictObject({
    level: setting(
      shape.oneOf("trace", "debug", "info", "warn", "error", "silent"),
      "The lowest level of events in the log. silent logs nothing, not even requests.",
      { default: "info", env: "LOG_LEVEL", reloadable: true },
    ),
    access: setting(
      shape.oneOf("on", "off", "sampled", "errors"),
      "Which requests and calls have a line in the log. on: all. sampled: all, but only one of 100 cache hits. errors: those with status 400 or higher, or without an answer. off: none.",
      { default: "sampled", env: "LOG_ACCESS", reloadable: true },
    ),
  }),
});

/** All settings, in their order. */
export const SETTINGS: readonly Setting[] = settingsOf(settingsSchema);

/** The defaults, as people write them. */
export const DEFAULTS: Readonly<Record<string, unknown>> = defaultsOf(settingsSchema);

/** The settings after reading: numbers in milliseconds and bytes, secrets wrapped. */
export type Settings = z.output<typeof settingsSchema>;

/**
 * Declares every setting once. `setting.ts` explains declarations. `npm run generate` writes config/default.yaml, the JSON
 * Schema and the chart's schema from these declarations.
 */
import * as z from "zod";

import { apps, budget } from "./schema/budget.ts";
import { cache, warm } from "./schema/cache.ts";
import { pages } from "./schema/pages.ts";
import { admin, server } from "./schema/server.ts";
import { query, upstream } from "./schema/upstream.ts";
import { defaultsOf, optional, setting, type Setting, settingsOf } from "./schema/setting.ts";
import { duration, flag, integer, oneOf } from "./schema/number-shapes.ts";
import { address, optionalPath, redisUrl, secretFile, text } from "./schema/text-shapes.ts";

const redis = z.strictObject({
  url: setting(redisUrl(), {
    env: "REDIS_URL",
    description: "The address of the Redis that all replicas share, with user and password.",
  }),
  passwordFile: setting(secretFile(), {
    env: "REDIS_PASSWORD_FILE",
    secretEnv: "REDIS_PASSWORD",
    description:
      "The path of a file that holds only the password at Redis. It wins over the one in redis.url. Set either this or REDIS_PASSWORD.",
  }),
  mode: setting(oneOf("single", "cluster", "sentinel"), {
    default: "single",
    description: "How Redis runs.",
  }),
  nodes: setting(z.array(setting(address(), { description: "One node, as host:port." })), {
    default: [],
    expected: "a list of nodes, each as host:port",
    description: "The first nodes of a Cluster, each as host:port. Empty means the node in redis.url.",
  }),
  sentinel: z.strictObject({
    master: setting(optional(text("the name of the master")), {
      description: "The name by which the Sentinels know the master.",
    }),
    nodes: setting(z.array(setting(address(), { description: "One Sentinel, as host:port." })), {
      default: [],
      expected: "a list of Sentinels, each as host:port",
      description: "The Sentinels, each as host:port.",
    }),
    passwordFile: setting(secretFile(), {
      env: "REDIS_SENTINEL_PASSWORD_FILE",
      secretEnv: "REDIS_SENTINEL_PASSWORD",
      description:
        "The path of a file that holds only the password at the Sentinels. Set either this or REDIS_SENTINEL_PASSWORD.",
    }),
  }),
  caFile: setting(optionalPath("file"), {
    env: "REDIS_CA_FILE",
    description: "A PEM file with the certificate authorities for rediss, in place of Node's own.",
  }),
  certFile: setting(optionalPath("file"), {
    env: "REDIS_CERT_FILE",
    description: "A PEM file with the certificate that the gateway shows to Redis (rediss), with its chain.",
  }),
  keyFile: setting(optionalPath("file"), {
    env: "REDIS_KEY_FILE",
    description: "A PEM file with the private key of certFile, not encrypted.",
  }),
  keyPrefix: setting(z.string().regex(/^[\w.:-]{0,64}$/), {
    default: "",
    env: "REDIS_KEY_PREFIX",
    expected: "at most 64 letters, digits, '_', '-', '.' or ':'",
    description: "The beginning of every key and channel, for example for an access rule of a shared Redis.",
  }),
  timeoutMs: setting(optional(duration()), {
    description:
      "The longest time that a Redis command may take. Unset: four times the 99th percentile of the measured round trips, from 50ms to 1s.",
  }),
});

export const settingsSchema = z.strictObject({
  server,
  admin,
  upstream,
  query,
  apps,
  cache,
  warm,
  pages,
  budget,
  redis,
  dataDir: setting(optionalPath("directory"), {
    default: "./data",
    env: "DATA_DIR",
    emptyEnv: true,
    description:
      "The directory for answers and the ledger. Empty keeps both in memory only. It is not used with Redis.",
  }),
  watchSettings: setting(flag(), {
    default: false,
    env: "WATCH_SETTINGS",
    description:
      "Whether the gateway reloads the file that CONFIG_FILE names when it has changed. Otherwise it waits for SIGHUP or `reload`.",
  }),
  metrics: z.strictObject({
    apps: setting(integer(0, 10_000), {
      default: 100,
      reloadable: true,
      description:
        "How many apps the metrics name: the listed apps with the largest weights, then the first others. The rest counts as other.",
    }),
  }),
  log: z.strictObject({
    level: setting(oneOf("trace", "debug", "info", "warn", "error", "silent"), {
      default: "info",
      env: "LOG_LEVEL",
      reloadable: true,
      description: "The lowest level of events in the log. silent logs nothing, not even requests.",
    }),
    access: setting(oneOf("on", "off", "sampled", "errors"), {
      default: "sampled",
      env: "LOG_ACCESS",
      reloadable: true,
      description:
        "Which requests and calls have a line in the log. on: all. sampled: all, but only one of 100 cache hits. errors: those with status 400 or higher, or without an answer. off: none.",
    }),
  }),
});

/** All settings, in their order. */
export const SETTINGS: readonly Setting[] = settingsOf(settingsSchema);

/** The defaults, as people write them. */
export const DEFAULTS: Readonly<Record<string, unknown>> = defaultsOf(settingsSchema);

/** The settings after reading: numbers in milliseconds and bytes, secrets wrapped. */
export type Settings = z.output<typeof settingsSchema>;

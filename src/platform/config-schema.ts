import * as z from "zod";

import {
  address,
  appId,
  appPerDay,
  appPriority,
  appWeight,
  baseUrl,
  budget,
  duration,
  fraction,
  headerName,
  headerUrl,
  headerValue,
  host,
  integer,
  mediaTypeToken,
  ONE_LINE_PATTERN,
  oneOf,
  optionalFraction,
  optionalPath,
  optionalSecret,
  optionalSecretFile,
  passThroughPath,
  port,
  recordPath,
  redisUrl,
  setting,
  size,
  text,
} from "./setting-shapes.ts";

/**
 * Every setting and its shape. Defaults and meanings are in `config/default.yaml`, environment names
 * in `environment.ts`; `npm run generate` writes the JSON Schema and the documentation from all three.
 */

const YEAR_MS = 365 * 86_400_000;

/** Only compared with the clock, never a timer: so a lifetime may be longer than timers can be. */
const lifetime = (): ReturnType<typeof duration> => duration({ maxMs: YEAR_MS });

const server = z.strictObject({
  host: host(),
  port: port(),
  appIdHeader: headerName(),
  maxUrlLength: integer(256, 65_536),
  drainTimeout: duration(),
});

const upstream = z.strictObject({
  url: baseUrl(),
  imageUrl: baseUrl(),
  service: mediaTypeToken(),
  callerId: text({ required: true }),
  privateKey: optionalSecret(),
  privateKeyFile: optionalSecretFile(),
  userAgent: headerValue(),
  referrer: headerUrl(),
  recordPath: recordPath(),
  passThrough: setting(z.array(passThroughPath()), {
    expected: "a list of paths below /listings, /sold or /areas",
  }),
  maxBody: size(),
  connections: integer(1, 1_000),
  connectTimeout: duration(),
  headerTimeout: duration(),
  bodyTimeout: duration(),
  totalTimeout: duration(),
  retryDelay: duration({ minMs: 0 }),
});

const query = z.strictObject({
  unknown: oneOf("forward", "drop", "reject"),
  ignored: setting(z.array(text({ required: false })), { expected: "a list of parameter names" }),
});

const cache = z.strictObject({
  maxBytes: size(),
  maxDiskBytes: size(),
  retention: lifetime(),
  maxAgeEver: lifetime(),
  ttl: z.strictObject({
    listings: lifetime(),
    sold: lifetime(),
    areas: lifetime(),
    records: lifetime(),
    images: lifetime(),
  }),
  negativeTtl: lifetime(),
});

/** The settings as they are written (input) and as they are read (output). */
export const settingsSchema = z.strictObject({
  server,
  admin: z.strictObject({ host: host(), port: port() }),
  upstream,
  query,
  apps: setting(
    z.array(
      z.strictObject({ id: appId(), weight: appWeight(), perDay: appPerDay(), priority: appPriority() }),
    ),
    {
      expected: "a list of apps, each with an id of 1 to 64 letters, digits, '.', '_' or '-'",
    },
  ),
  cache,
  budget: z.strictObject({
    limit: budget(),
    concurrency: integer(1, 1_000),
    maxWait: duration(),
    images: budget(),
    mode: oneOf("enforce", "observe"),
    reserve: fraction(0, 0.9),
    maxCoolOff: duration(),
    replicas: integer(1, 1_000),
    degradedShare: optionalFraction(0, 1),
    degradedFor: duration(),
  }),
  ledger: z.strictObject({ retention: lifetime(), maxRecords: integer(1_000, 10_000_000) }),
  redis: z.strictObject({
    url: redisUrl(),
    mode: oneOf("single", "cluster", "sentinel"),
    nodes: setting(z.array(address()), { expected: "a list of nodes, each as host:port" }),
    sentinel: z.strictObject({
      master: setting(z.string().regex(ONE_LINE_PATTERN).nullable(), { expected: "the name of the master" }),
      nodes: setting(z.array(address()), { expected: "a list of Sentinels, each as host:port" }),
    }),
    caFile: optionalPath("file"),
    timeout: duration(),
    probeInterval: duration(),
  }),
  dataDir: optionalPath("directory"),
  log: z.strictObject({ level: oneOf("trace", "debug", "info", "warn", "error", "silent") }),
});

/** The settings after reading: numbers in milliseconds and bytes, still under their written names. */
export type Settings = z.output<typeof settingsSchema>;

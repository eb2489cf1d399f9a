import * as z from "zod";

import {
  address,
  appId,
  baseUrl,
  budget,
  duration,
  flag,
  fraction,
  headerName,
  headerUrl,
  headerValue,
  host,
  integer,
  mediaTypeToken,
  ONE_LINE_PATTERN,
  oneOf,
  optionalPath,
  optionalSecret,
  optionalSecretFile,
  optionalToken,
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

const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;
const MIB = 1024 * 1024;

/** Only compared with the clock, never a timer: so a lifetime may be longer than timers can be. */
const lifetime = (): ReturnType<typeof duration> => duration({ maxMs: YEAR_MS });

const server = z.strictObject({
  host: host(),
  port: port(),
  appIdHeader: headerName(),
  maxUrlLength: integer(256, 65_536),
  maxHeaderSize: size({ maxBytes: MIB }),
  maxHeaders: integer(10, 1_000),
  maxConnections: integer(1, 100_000),
  headersTimeout: duration(),
  requestTimeout: duration(),
  keepAliveTimeout: duration(),
  writeTimeout: duration(),
  stopDelay: duration({ minMs: 0 }),
  drainTimeout: duration(),
});

const admin = z.strictObject({
  host: setting(host().nullable(), { expected: "a host name or an IP address to listen on" }),
  port: port(),
  token: optionalToken(),
  tokenFile: optionalSecretFile(),
  openMetrics: flag(),
});

const upstream = z.strictObject({
  url: baseUrl(),
  imageUrl: baseUrl(),
  caFile: optionalPath("file"),
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

/** One for each kind of answer; `minMs` 0: none at all. */
const lifetimes = (minMs = 1) => {
  const each = (): ReturnType<typeof duration> => duration({ minMs, maxMs: YEAR_MS });
  return setting(
    z.strictObject({ listings: each(), sold: each(), areas: each(), records: each(), images: each() }),
    { expected: "one duration for all kinds of answers, such as 5m, or a section with one for each" },
  );
};

const cache = z.strictObject({
  maxBytes: size(),
  maxDiskBytes: size(),
  retention: lifetime(),
  ttl: lifetimes(),
  adaptiveTtl: oneOf("off", "shadow", "on"),
  ttlMin: lifetimes(),
  ttlMax: lifetimes(),
  staleWhileRevalidate: lifetimes(0),
  staleIfError: lifetimes(0),
  maxWaitForFresh: duration(),
  negativeTtl: lifetimes(0),
  maxAgeEver: lifetime(),
  honourUpstream: flag(),
  minRefreshInterval: duration({ minMs: 0, maxMs: DAY_MS }),
  earlyRefreshAbove: fraction(0, 1),
});

const app = z.strictObject({
  id: appId(),
  weight: setting(z.number().gt(0).max(1_000).default(1), {
    expected: "a number above 0, at most 1000",
    meaning: "How large its share of the budget is, next to the others' weights",
  }),
  perDay: setting(z.int().min(1).max(1_000_000_000).nullable().default(null), {
    expected: "a whole number above zero",
    meaning: "Most upstream requests it may cause in any day; no limit of its own where absent",
  }),
  priority: setting(z.enum(["interactive", "background"]).default("interactive"), {
    expected: "one of interactive, background",
    meaning: "Whose turn comes first; background requests also leave budget.reserve alone",
  }),
  mayForceRefresh: setting(z.boolean().default(false), {
    expected: "true or false",
    meaning: "Whether its requests may ask for newer answers than the kept, fresh ones; that costs budget",
  }),
});

const budgets = z.strictObject({
  limit: budget(),
  concurrency: integer(1, 1_000),
  maxWait: duration(),
  images: budget(),
  mode: oneOf("enforce", "observe"),
  reserve: fraction(0, 0.9),
  replicas: integer(1, 1_000),
  degradedShare: setting(fraction(0, 1).nullable(), {
    expected: "a number from 0 to 1, such as 0.1, or nothing for 1/replicas",
  }),
  degradedFor: duration({ maxMs: DAY_MS }),
  maxCoolOff: duration(),
});

/** The settings as they are written (input) and as they are read (output). */
export const settingsSchema = z.strictObject({
  server,
  admin,
  upstream,
  query,
  apps: setting(z.array(app), {
    expected:
      "a list of apps, each with an id of 1 to 64 letters, digits, '.', '_' or '-', and where wanted with weight " +
      "(above 0, at most 1000; 1), perDay (requests in any day; unlimited), priority (interactive or background; " +
      "interactive) and mayForceRefresh (true or false; false)",
  }),
  cache,
  warm: z.strictObject({ file: optionalPath("file") }),
  budget: budgets,
  ledger: z.strictObject({
    retention: lifetime(),
    maxRecords: integer(1_000, 10_000_000),
  }),
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

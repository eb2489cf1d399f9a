/**
 * Values of `Config` that are not settings, because nobody has needed another value yet. Tests and benches pass others to
 * `openSettings`. To make one a setting, move it into `settings/`.
 */
const DAY_MS = 86_400_000;

export const CONSTANTS = {
  server: {
    maxUrlBytes: 8_192,
    /** All headers together: names, values, colons and line ends. */
    maxHeaderBytes: 16 * 1_024,
    maxHeaders: 100,
    /** The time for the headers. It starts with the connection, or with the end of the previous response. */
    headersTimeoutMs: 10_000,
    /** The time for the whole request. */
    requestTimeoutMs: 30_000,
    /** How long a connection stays open without a request. Longer than the load balancer's own keep-alive, so that the balancer closes idle connections first. */
    keepAliveTimeoutMs: 75_000,
    /** How long a caller may read nothing of its response. */
    writeTimeoutMs: 30_000,
  },
  upstream: {
    maxBodyBytes: 4 * 1_024 * 1_024,
    connectTimeoutMs: 2_000,
    headerTimeoutMs: 5_000,
    bodyTimeoutMs: 5_000,
    totalTimeoutMs: 8_000,
    retryDelayMs: 200,
  },
  cache: {
    retentionMs: 2 * DAY_MS,
    minRefreshIntervalMs: 10_000,
  },
  budget: {
    /** The part of each window that background calls leave to interactive ones. */
    reserve: 0.1,
    maxCoolOffMs: 300_000,
  },
  /** The weight of an app that is not listed, and how many of them have a share of their own at the same time. */
  unlistedApps: { weight: 1, max: 100 },
  ledger: { retentionMs: 35 * DAY_MS, maxRecords: 500_000 },
  redis: { probeIntervalMs: 1_000 },
  log: { accessSample: 100 },
};

export type Constants = typeof CONSTANTS;

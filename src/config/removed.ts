/**
 * Settings that earlier versions had. A file or an environment that still has one is refused with its sentence.
 * `npm run generate` writes the list into docs/upgrading.md.
 */
interface RemovedSetting {
  /** The path in a file. A section stands for all settings in it. */
  readonly path: string;
  readonly env?: string;
  /** What to do instead, as one sentence. */
  readonly instead: string;
}

/** @returns the sentence for a setting that has become a constant */
function always(value: string): string {
  return `It is always ${value} now; remove it.`;
}

export const REMOVED: readonly RemovedSetting[] = [
  { path: "server.maxUrlLength", instead: always("8192 bytes") },
  { path: "server.maxHeaderSize", instead: always("16KiB") },
  { path: "server.maxHeaders", instead: always("100") },
  { path: "server.headersTimeout", instead: always("10s") },
  { path: "server.requestTimeout", instead: always("30s") },
  { path: "server.keepAliveTimeout", instead: always("75s") },
  { path: "server.writeTimeout", instead: always("30s") },
  { path: "admin.token", instead: "Set the variable ADMIN_TOKEN, or admin.tokenFile to the path of a file." },
  {
    path: "upstream.privateKey",
    instead: "Set the variable UPSTREAM_PRIVATE_KEY, or upstream.privateKeyFile to the path of a file.",
  },
  {
    path: "admin.openMetrics",
    env: "ADMIN_OPEN_METRICS",
    instead: "Remove it; /metrics never needs the token.",
  },
  {
    path: "derive",
    env: "DERIVE_MODE",
    instead:
      "Remove it; answers are no longer computed from broader searches, which saved 8 % of the remaining calls.",
  },
  { path: "pages.block", instead: "Remove it; a block has 500 records." },
  {
    path: "pages.verify",
    instead: "Remove it; checks make at most one per cent of the calls that are made anyway.",
  },
  { path: "pages.maxExtraLatency", instead: "Remove it; the block is always fetched." },
  { path: "cache.adaptiveTtl", instead: "Set cache.ttl by gateway_refreshes_total." },
  { path: "cache.ttlMin", instead: "Set cache.ttl." },
  { path: "cache.ttlMax", instead: "Set cache.ttl." },
  { path: "upstream.maxBody", instead: always("4MiB") },
  { path: "upstream.connections", instead: always("8") },
  { path: "upstream.connectTimeout", instead: always("2s") },
  { path: "upstream.headerTimeout", instead: always("5s") },
  { path: "upstream.bodyTimeout", instead: always("5s") },
  { path: "upstream.retryDelay", instead: always("200ms") },
  {
    path: "query.ignored",
    instead: "Use query.ignore; names of keys and tokens are always ignored.",
  },
  { path: "cache.minRefreshInterval", instead: always("10s") },
  { path: "cache.earlyRefreshAbove", instead: always("0.5") },
  {
    path: "warm.file",
    env: "WARM_FILE",
    instead: "List the URLs directly below warm in the settings file.",
  },
  { path: "apps.default", env: "APPS_DEFAULT", instead: always("1") },
  { path: "apps.maxUnlisted", env: "APPS_MAX_UNLISTED", instead: always("100") },
  { path: "upstream.totalTimeout", instead: always("8s") },
  { path: "cache.retention", instead: always("48h") },
  { path: "budget.reserve", instead: always("0.1") },
  {
    path: "log.accessSample",
    env: "LOG_ACCESS_SAMPLE",
    instead: "Remove it; log.access: sampled has a line for one of 100 cache hits.",
  },
  {
    path: "redis.sentinel.username",
    env: "REDIS_SENTINEL_USERNAME",
    instead: "Remove it; the gateway logs in at the Sentinels with a password alone.",
  },
  { path: "budget.degradedShare", instead: "It had no effect; use budget.degradedReserve." },
  { path: "budget.maxCoolOff", instead: always("5m") },
  { path: "ledger.retention", instead: always("35d") },
  { path: "ledger.maxRecords", instead: always("500000") },
  { path: "redis.username", env: "REDIS_USERNAME", instead: "Write the user into redis.url (REDIS_URL)." },
  {
    path: "redis.password",
    instead: "Set the variable REDIS_PASSWORD, or redis.passwordFile to the path of a file.",
  },
  {
    path: "redis.sentinel.password",
    instead:
      "Set the variable REDIS_SENTINEL_PASSWORD, or redis.sentinel.passwordFile to the path of a file.",
  },
  { path: "redis.probeInterval", instead: always("1s") },
  { path: "metrics.unlistedApps", instead: always("20") },
];

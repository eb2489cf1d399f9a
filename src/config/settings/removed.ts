/**
 * Settings that earlier versions had. A file or an environment that still has one is refused with its sentence.
 * `npm run generate` writes the list into docs/upgrading.md.
 */

import { leavesOf } from "../sources.ts";
import { CONSTANTS } from "../timeouts-and-limits.ts";
import { nameOf } from "./setting.ts";
import { formatDuration } from "./units.ts";

const always = (value: unknown): string => `It is always ${String(value)} now; remove it.`;

/** Settings that have become constants of the same name. Sizes and the limits of unlisted apps had other names: see `GONE`. */
const CONSTANT = leavesOf(CONSTANTS)
  .map(([path, value]) => [path.join("."), value] as const)
  .filter(([name]) => !/Bytes$|^unlistedApps/.test(name))
  .map(([name, value]) => [
    nameOf(name),
    always(name.endsWith("Ms") ? formatDuration(Number(value)) : value),
  ]);

/** Other settings, and what to do instead. */
const GONE: Readonly<Record<string, string>> = {
  "server.maxUrlLength": always("8192 bytes"),
  "server.maxHeaderSize": always("16KiB"),
  "upstream.maxBody": always("4MiB"),
  "upstream.connections": "Remove it; only budget.concurrency limits the calls in flight.",
  "apps.default": always(1),
  "apps.maxUnlisted": always(100),
  "admin.token": "Set ADMIN_TOKEN, or name a file in admin.tokenFile.",
  "upstream.privateKey": "Set UPSTREAM_PRIVATE_KEY, or name a file in upstream.privateKeyFile.",
  "admin.openMetrics": "Remove it; /metrics never needs the token.",
  derive:
    "Remove it; answers are no longer computed from broader searches, which saved 8 % of the remaining calls.",
  "pages.block": "Remove it; a block has 500 records.",
  "pages.verify": "Remove it; checks make at most one per cent of the calls that are made anyway.",
  "pages.maxExtraLatency": "Remove it; the block is always fetched.",
  "cache.adaptiveTtl": "Remove it; see cache.lifetimes.",
  "cache.ttlMin": "Remove it; learned lifetimes are from a third of cache.ttl on.",
  "cache.ttlMax": "Remove it; learned lifetimes are at most three times cache.ttl.",
  "cache.earlyRefreshAbove": "Remove it; answers are refreshed after they expire, not before.",
  "query.ignored": "Use query.ignore; names of keys and tokens are always ignored.",
  "warm.file": "List the URLs directly below warm in the settings file.",
  "log.accessSample": "Remove it; log.access: sampled has a line for one of 100 cache hits.",
  "redis.sentinel.username": "Remove it; the gateway logs in at the Sentinels with a password alone.",
  "budget.degradedShare": "It had no effect; use budget.degradedReserve.",
  "metrics.unlistedApps": "Use metrics.apps, which also counts the listed apps.",
  "redis.username": "Write the user into redis.url (REDIS_URL).",
  "redis.password": "Set REDIS_PASSWORD, or name a file in redis.passwordFile.",
  "redis.sentinel.password": "Set REDIS_SENTINEL_PASSWORD, or name a file in redis.sentinel.passwordFile.",
};

/** The environment variables of some of them. */
const VARIABLES: Readonly<Record<string, string>> = {
  "admin.openMetrics": "ADMIN_OPEN_METRICS",
  derive: "DERIVE_MODE",
  "warm.file": "WARM_FILE",
  "apps.default": "APPS_DEFAULT",
  "apps.maxUnlisted": "APPS_MAX_UNLISTED",
  "log.accessSample": "LOG_ACCESS_SAMPLE",
  "redis.sentinel.username": "REDIS_SENTINEL_USERNAME",
  "redis.username": "REDIS_USERNAME",
};

/** The path of each in a file (a section stands for all settings in it), and one sentence that says what to do instead. */
export const REMOVED = Object.entries<string>({ ...Object.fromEntries(CONSTANT), ...GONE }).map(
  ([path, instead]) => ({ path, instead, env: VARIABLES[path] }),
);

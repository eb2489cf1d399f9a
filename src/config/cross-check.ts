/**
 * Checks settings against one another.
 */
import { isIP } from "node:net";

import type { Settings } from "./schema.ts";
import type { Conflict } from "./secrets.ts";
import type { SettingSources } from "./sources.ts";
import { formatDuration } from "./units.ts";

type ReadableSettings = Partial<Settings>;

/** @returns the conflicts between settings. Settings that could not be read are not checked. */
export function crossCheck(settings: ReadableSettings, sources: SettingSources): Conflict[] {
  return [
    ...portConflict(settings),
    ...missingBudget(settings, sources),
    ...redisConflicts(settings),
    ...repeatedApps(settings, sources),
    ...retentionConflicts(settings),
  ];
}

function portConflict({ server, admin }: ReadableSettings): Conflict[] {
  const port = server?.port;
  if (port === undefined || port === 0 || port !== admin?.port) return [];
  const explanation = `both ports are ${port}; expected two different ones, or 0 for any free port`;
  return conflict(["admin.port", "server.port"], explanation);
}

/** The budget is the contract with the API's owner, so it has a default for the sandbox only. */
function missingBudget({ upstream }: ReadableSettings, sources: SettingSources): Conflict[] {
  if (upstream === undefined || isSandbox(upstream.url)) return [];
  if (sources.isSet(["budget", "limit"])) return [];
  const explanation =
    "budget.limit is missing: set BUDGET, or budget.limit in the configuration file, to the limits that you have agreed " +
    "on with the API's owner, such as 60/1m,10000/1d";
  return [{ paths: [], explanation }];
}

/** The sandbox runs on this machine, or on a host with the name `sandbox`, as in compose.yaml. */
function isSandbox(address: string): boolean {
  const { hostname } = new URL(address);
  return hostname === "sandbox" || isLoopback(hostname);
}

function isLoopback(hostname: string): boolean {
  return (
    hostname === "localhost" || hostname === "[::1]" || (isIP(hostname) === 4 && hostname.startsWith("127."))
  );
}

const DAY_MS = 86_400_000;

interface Warned {
  readonly upstream: Pick<Settings["upstream"], "url" | "userAgent" | "referrer">;
  readonly cache: Pick<Settings["cache"], "ttlMs" | "maxAgeEverMs">;
}

/** @returns what the gateway says at the start about valid settings that are probably not meant */
export function settingWarnings({ upstream, cache }: Warned): string[] {
  const apiHost = new URL(upstream.url).hostname;
  const isPlaceholder = (text: string): boolean =>
    /(^|[^a-z0-9-])(example\.(com|net|org)|localhost)([^a-z0-9-]|$)|127\.0\.0\.1|\[::1\]/i.test(text) ||
    text.toLowerCase().includes(apiHost);
  const identity = [
    ["upstream.userAgent (UPSTREAM_USER_AGENT)", upstream.userAgent],
    ["upstream.referrer (UPSTREAM_REFERRER)", upstream.referrer],
  ] as const;
  const lifetimes = [
    ...Object.entries(cache.ttlMs).map(([kind, ms]) => [`cache.ttl.${kind}`, ms] as const),
    ["cache.maxAgeEver", cache.maxAgeEverMs] as const,
  ];
  return [
    ...identity
      .filter(([, text]) => isPlaceholder(text))
      .map(([name]) => `${name} is a placeholder. The terms of use require that it identifies your company.`),
    ...lifetimes
      .filter(([, ms]) => ms > DAY_MS)
      .map(
        ([name, ms]) =>
          `${name} is ${formatDuration(ms)}. The terms of use want moderate caching: at most 1d.`,
      ),
  ];
}

function redisConflicts({ redis }: ReadableSettings): Conflict[] {
  if (redis === undefined) return [];
  const { mode, url, nodes, sentinel } = redis;
  const isElsewhere = mode !== "single" || nodes.length > 0 || sentinel.nodes.length > 0;
  if (url === null && isElsewhere) {
    const explanation =
      "expected redis.url (REDIS_URL) too: it switches Redis on and holds user and password";
    return conflict(["redis.url"], explanation);
  }
  if (mode === "sentinel" && (sentinel.master === null || sentinel.nodes.length === 0)) {
    const explanation =
      "expected the master's name and at least one Sentinel, because redis.mode is sentinel";
    return conflict(["redis.sentinel"], explanation);
  }
  return [];
}

function repeatedApps({ apps }: ReadableSettings, sources: SettingSources): Conflict[] {
  const ids = (apps?.listed ?? []).map((app) => app.id);
  return ids.flatMap((id, index): Conflict[] => {
    const first = ids.indexOf(id);
    if (first === index) return [];
    const other = sources.pathOf(["apps", "listed", first]);
    const explanation = `${JSON.stringify(id)} is the id of ${other} already; expected each id once`;
    return [{ paths: [["apps", "listed", index, "id"]], explanation }];
  });
}

/** The ledger must keep each request for as long as a window counts it. */
function retentionConflicts({ budget, ledger }: ReadableSettings): Conflict[] {
  if (ledger === undefined) return [];
  const { retentionMs } = ledger;
  return (["limit", "images"] as const).flatMap((name): Conflict[] => {
    const longestMs = Math.max(0, ...(budget?.[name] ?? []).map(({ windowMs }) => windowMs));
    if (retentionMs >= longestMs) return [];
    const explanation =
      `a window is ${formatDuration(longestMs)} long, but the ledger keeps requests for ` +
      `${formatDuration(retentionMs)}; expected windows of at most that`;
    return conflict([`budget.${name}`], explanation);
  });
}

function conflict(names: readonly string[], explanation: string): Conflict[] {
  return [{ paths: names.map((name) => name.split(".")), explanation }];
}

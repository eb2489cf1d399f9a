/**
 * Checks settings against one another.
 */
import { isIP } from "node:net";

import type { Settings } from "./schema.ts";
import type { Conflict } from "./secrets/secrets.ts";
import { type SettingPath, type SettingSources, valueAt } from "./sources.ts";
import { formatDuration } from "./schema/units.ts";

/**
 * @param given the secrets that environment variables hold, by the name of the variable
 * @returns the conflicts between settings. Sections with mistakes are missing, and are not checked.
 */
export function checkCombinations(
  { server, admin, upstream, redis, apps }: Partial<Settings>,
  sources: SettingSources,
  given: ReadonlyMap<string, string>,
): Conflict[] {
  const conflicts: Conflict[] = [];
  const add = (explanation: string, ...paths: SettingPath[]): void =>
    void conflicts.push({ paths, explanation });
  if (!given.has("UPSTREAM_PRIVATE_KEY") && !valueAt(sources.merged, ["upstream", "privateKeyFile"])) {
    add(
      "upstream.privateKeyFile is missing: set UPSTREAM_PRIVATE_KEY_FILE to the path of a file that holds the private key, or " +
        "UPSTREAM_PRIVATE_KEY to the key",
    );
  }
  if (server && admin && server.port === admin.port && server.port !== 0) {
    const ports: SettingPath[] = [
      ["admin", "port"],
      ["server", "port"],
    ];
    add(`both ports are ${server.port}; expected two different ones, or 0 for any free port`, ...ports);
  }
  // The budget is the contract with the API's owner, so it has a default for the sandbox only.
  if (upstream && !isSandbox(upstream.url) && !sources.isSet(["budget", "limit"])) {
    add(
      "budget.limit is missing: set BUDGET, or budget.limit in the configuration file, to the limits that you have " +
        "agreed on with the API's owner, such as 60/1m,10000/1d",
    );
  }
  const fault = redis && redisFault(redis);
  if (fault) add(fault.expected, fault.path);
  const ids = (apps?.listed ?? []).map(({ id }) => id);
  for (const [index, id] of ids.entries()) {
    const first = ids.indexOf(id);
    if (first === index) continue;
    const other = sources.pathOf(["apps", "listed", first]);
    const at = ["apps", "listed", index, "id"];
    add(`${JSON.stringify(id)} is the id of ${other} already; expected each id once`, at);
  }
  return conflicts;
}

function redisFault({ url, mode, nodes, sentinel }: Settings["redis"]): RedisFault | undefined {
  if (url === null && (mode !== "single" || nodes.length + sentinel.nodes.length > 0)) {
    const expected = "expected redis.url (REDIS_URL) too: it switches Redis on and holds user and password";
    return { path: ["redis", "url"], expected };
  }
  if (mode !== "sentinel" || (sentinel.master !== null && sentinel.nodes.length > 0)) return undefined;
  const expected = "expected the master's name and at least one Sentinel, because redis.mode is sentinel";
  return { path: ["redis", "sentinel"], expected };
}

interface RedisFault {
  readonly path: SettingPath;
  readonly expected: string;
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

/**
 * Checks settings against one another.
 */
import { isIP } from "node:net";

import type { Settings } from "./schema.ts";
import { type Mistake, type SettingSources, valueAt } from "./sources.ts";
import { formatDuration } from "./schema/units.ts";

/**
 * @param given the secrets that environment variables hold, by the name of the variable
 * @returns the conflicts between settings. Sections with mistakes are missing, and are not checked.
 */
export function checkCombinations(
  { server, admin, upstream, redis, apps }: Partial<Settings>,
  { merged, isSet, pathOf }: SettingSources,
  given: ReadonlyMap<string, string>,
): Mistake[] {
  const mistakes: Mistake[] = [];
  if (!given.has("UPSTREAM_PRIVATE_KEY") && !valueAt(merged, ["upstream", "privateKeyFile"])) {
    const says =
      "upstream.privateKeyFile is missing: set UPSTREAM_PRIVATE_KEY_FILE to the path of a file that holds the private key, or " +
      "UPSTREAM_PRIVATE_KEY to the key";
    mistakes.push({ paths: [], says, isMissing: true });
  }
  if (server && admin && server.port === admin.port && server.port !== 0) {
    const says = `both ports are ${server.port}; expected two different ones, or 0 for any free port`;
    mistakes.push({
      paths: [
        ["admin", "port"],
        ["server", "port"],
      ],
      says,
    });
  }
  // The budget is the contract with the API's owner, so it has a default for the sandbox only.
  if (upstream && !isSandbox(upstream.url) && !isSet(["budget", "limit"])) {
    const says =
      "budget.limit is missing: set BUDGET, or budget.limit in the configuration file, to the limits that you have " +
      "agreed on with the API's owner, such as 60/1m,10000/1d";
    mistakes.push({ paths: [], says, isMissing: true });
  }
  if (redis) mistakes.push(...redisMistakes(redis));
  const ids = (apps?.listed ?? []).map(({ id }) => id);
  for (const [index, id] of ids.entries()) {
    const first = ids.indexOf(id);
    if (first === index) continue;
    const says = `${JSON.stringify(id)} is the id of ${pathOf(["apps", "listed", first])} already; expected each id once`;
    mistakes.push({ paths: [["apps", "listed", index, "id"]], says });
  }
  return mistakes;
}

function redisMistakes({ url, mode, nodes, sentinel }: Settings["redis"]): Mistake[] {
  if (url === null && (mode !== "single" || nodes.length + sentinel.nodes.length > 0)) {
    const says = "expected redis.url (REDIS_URL) too: it switches Redis on and holds user and password";
    return [{ paths: [["redis", "url"]], says }];
  }
  if (mode !== "sentinel" || (sentinel.master !== null && sentinel.nodes.length > 0)) return [];
  const says = "expected the master's name and at least one Sentinel, because redis.mode is sentinel";
  return [{ paths: [["redis", "sentinel"]], says }];
}

/** The sandbox runs on this machine, or on a host with the name `sandbox`, as in compose.yaml. */
function isSandbox(address: string): boolean {
  const { hostname } = new URL(address);
  const isLoopback = isIP(hostname) === 4 && hostname.startsWith("127.");
  return isLoopback || ["sandbox", "localhost", "[::1]"].includes(hostname);
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

/**
 * Checks settings against one another.
 */
import type { Config } from "./config.ts";
import type { Environment } from "./env.ts";
import { formatDuration } from "./settings/units.ts";
import type { Settings } from "./settings.ts";
import { formatPath, type Mistake, type SettingPath, type SettingSources, valueAt } from "./sources.ts";

/** @returns the conflicts between settings. Sections with mistakes are missing, and are not checked. */
export function checkCombinations(
  { upstream, redis, apps }: Partial<Settings>,
  { merged, set }: SettingSources,
  env: Environment,
): Mistake[] {
  const mistakes: Mistake[] = [];
  const wrong = (says: string, path?: SettingPath): void =>
    void mistakes.push({ ...(path && { path }), says });

  if (!env["UPSTREAM_PRIVATE_KEY"] && !valueAt(merged, ["upstream", "privateKeyFile"]))
    wrong(
      "upstream.privateKeyFile is missing: set UPSTREAM_PRIVATE_KEY_FILE to the path of a file that holds the private key, or " +
        "UPSTREAM_PRIVATE_KEY to the key",
    );
  // The budget is the contract with the API's owner, so it has a default for the sandbox only.
  const isBudgetSet = set.some(({ path }) => formatPath(path) === "budget.limit");
  if (upstream && !isSandbox(upstream.url) && !isBudgetSet)
    wrong(
      "budget.limit is missing: set BUDGET, or budget.limit in the configuration file, to the limits that you have " +
        "agreed on with the API's owner, such as 60/1m,10000/1d",
    );
  if (redis) checkRedis(redis, wrong);
  const ids = (apps?.listed ?? []).map(({ id }) => id);
  for (const [index, id] of ids.entries())
    if (ids.indexOf(id) !== index)
      wrong(`${JSON.stringify(id)} is given twice; expected each id once`, ["apps", "listed", index, "id"]);
  return mistakes;
}

function checkRedis(
  { url, mode, nodes, sentinel, caFile, certFile }: Settings["redis"],
  wrong: (says: string, path: SettingPath) => void,
): void {
  const file = caFile === null ? "certFile" : "caFile";
  if (url?.reveal().startsWith("redis:") === true && (caFile ?? certFile) !== null)
    wrong("has no effect: redis.url begins with redis://; expected rediss://, for TLS", ["redis", file]);
  const missingUrl = "expected redis.url (REDIS_URL) too: it switches Redis on and holds user and password";
  const incomplete = "expected the master's name and at least one Sentinel, because redis.mode is sentinel";
  if (url === null && (mode !== "single" || nodes.length + sentinel.nodes.length > 0))
    wrong(missingUrl, ["redis", "url"]);
  else if (mode === "sentinel" && (sentinel.master === null || sentinel.nodes.length === 0))
    wrong(incomplete, ["redis", "sentinel"]);
}

/** The sandbox runs on this machine, or on a host with the name `sandbox`, as in compose.yaml. */
function isSandbox(address: string): boolean {
  const { hostname } = new URL(address);
  return hostname === "sandbox" || OWN_MACHINE.test(hostname);
}

const OWN_MACHINE = /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i;

const DAY_MS = 86_400_000;

const ADMIN_PORT_IS_OPEN =
  "Anyone who can reach the admin port can use it, purges included. Set ADMIN_TOKEN.";

const REPLICAS_ARE_ALONE =
  "REPLICAS needs Redis: without REDIS_URL, each process spends the whole budget by itself.";

/** @returns what the gateway says at the start about valid settings that are probably not meant */
export function settingWarnings({ admin, upstream, cache, budget, redis }: Config): string[] {
  const apiHost = new URL(upstream.url).hostname;
  const isPlaceholder = (text: string): boolean =>
    /(^|[^a-z0-9-])(example\.(com|net|org)|localhost)([^a-z0-9-]|$)|127\.0\.0\.1|\[::1\]/i.test(text) ||
    text.toLowerCase().includes(apiHost);
  const identity = {
    "upstream.userAgent (UPSTREAM_USER_AGENT)": upstream.userAgent,
    "upstream.referrer (UPSTREAM_REFERRER)": upstream.referrer,
  };
  const lifetimes = [
    ...Object.entries(cache.ttlMs).map(([kind, ms]) => [`cache.ttl.${kind}`, ms] as const),
    ["cache.maxAgeEver", cache.maxAgeEverMs] as const,
  ].filter(([, ms]) => ms > DAY_MS);
  return [
    ...Object.entries(identity)
      .filter(([, text]) => isPlaceholder(text))
      .map(([name]) => `${name} is a placeholder. The terms of use require that it identifies your company.`),
    ...lifetimes.map(
      ([name, ms]) => `${name} is ${formatDuration(ms)}. The terms of use want moderate caching: at most 1d.`,
    ),
    ...(budget.replicas > 1 && redis === null ? [REPLICAS_ARE_ALONE] : []),
    ...(admin.token === null && !OWN_MACHINE.test(admin.host) ? [ADMIN_PORT_IS_OPEN] : []),
  ];
}

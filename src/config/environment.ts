import { almostSame } from "../nearest.ts";
import type { SettingPath } from "./setting-path.ts";

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Names the YAML file that overlays the defaults. */
export const CONFIG_FILE = "CONFIG_FILE";

/** An environment variable and the setting it wins over. */
interface Variable {
  readonly name: string;
  readonly path: readonly string[];
  /** `pairs`: `a=…,b=…` sets single keys of a mapping. Default `text`. */
  readonly kind?: "text" | "integer" | "flag" | "pairs";
  /** An empty value is a value here, not the absence of one. */
  readonly emptyCounts?: true;
}

export const VARIABLES: readonly Variable[] = [
  { name: "HOST", path: ["server", "host"] },
  { name: "PORT", path: ["server", "port"], kind: "integer" },
  { name: "STOP_DELAY", path: ["server", "stopDelay"] },
  { name: "ADMIN_HOST", path: ["admin", "host"] },
  { name: "ADMIN_PORT", path: ["admin", "port"], kind: "integer" },
  { name: "ADMIN_TOKEN", path: ["admin", "token"] },
  { name: "ADMIN_TOKEN_FILE", path: ["admin", "tokenFile"] },
  { name: "ADMIN_OPEN_METRICS", path: ["admin", "openMetrics"], kind: "flag" },
  { name: "UPSTREAM_URL", path: ["upstream", "url"] },
  { name: "UPSTREAM_IMAGE_URL", path: ["upstream", "imageUrl"] },
  { name: "UPSTREAM_CA_FILE", path: ["upstream", "caFile"] },
  { name: "UPSTREAM_SERVICE", path: ["upstream", "service"] },
  { name: "UPSTREAM_CALLER_ID", path: ["upstream", "callerId"] },
  { name: "UPSTREAM_PRIVATE_KEY", path: ["upstream", "privateKey"] },
  { name: "UPSTREAM_PRIVATE_KEY_FILE", path: ["upstream", "privateKeyFile"] },
  { name: "UPSTREAM_USER_AGENT", path: ["upstream", "userAgent"] },
  { name: "UPSTREAM_REFERRER", path: ["upstream", "referrer"] },
  { name: "CACHE_TTL", path: ["cache", "ttl"], kind: "pairs" },
  { name: "CACHE_STALE_WHILE_REVALIDATE", path: ["cache", "staleWhileRevalidate"], kind: "pairs" },
  { name: "CACHE_STALE_IF_ERROR", path: ["cache", "staleIfError"], kind: "pairs" },
  { name: "WARM_FILE", path: ["warm", "file"] },
  { name: "BUDGET", path: ["budget", "limit"] },
  { name: "BUDGET_CONCURRENCY", path: ["budget", "concurrency"], kind: "integer" },
  { name: "BUDGET_MAX_WAIT", path: ["budget", "maxWait"] },
  { name: "REPLICAS", path: ["budget", "replicas"], kind: "integer" },
  { name: "REDIS_URL", path: ["redis", "url"] },
  { name: "REDIS_CA_FILE", path: ["redis", "caFile"] },
  { name: "DATA_DIR", path: ["dataDir"], emptyCounts: true },
  { name: "LOG_LEVEL", path: ["log", "level"] },
];

/** A setting as the environment gives it. */
export interface Assignment {
  readonly variable: string;
  readonly path: SettingPath;
  readonly value: string | number | boolean;
}

/** The environment of this process: the one place that reads it. */
export function processEnvironment(): Environment {
  return process.env;
}

/**
 * Reads the settings that the environment gives.
 * @returns the assignments in the order of {@link VARIABLES}, and a line per variable that cannot be read
 */
export function readEnvironment(env: Environment): { assignments: Assignment[]; problems: string[] } {
  const assignments: Assignment[] = [];
  const problems: string[] = [];
  for (const variable of VARIABLES) {
    const value = env[variable.name];
    if (value === undefined || (value === "" && !variable.emptyCounts)) continue;
    if (variable.kind === "pairs") readPairs(variable, value, assignments, problems);
    else assignments.push({ variable: variable.name, path: variable.path, value: read(variable, value) });
  }
  problems.push(...unsafe(env), ...misspelled(env));
  return { assignments, problems };
}

/** A number, or true or false, where one is meant and written; anything else stays text, for the check to refuse. */
function read(variable: Variable, value: string): string | number | boolean {
  if (variable.kind === "flag" && /^(true|false)$/.test(value)) return value === "true";
  return variable.kind === "integer" && /^\d{1,15}$/.test(value) ? Number(value) : value;
}

function readPairs(variable: Variable, value: string, into: Assignment[], problems: string[]): void {
  const seen = new Set<string>();
  for (const item of value.split(",")) {
    const [, key = "", text = ""] = /^\s*([A-Za-z]+)\s*=\s*(\S+)\s*$/.exec(item) ?? [];
    const fault = key === "" ? "found" : seen.has(key) ? "given twice:" : undefined;
    seen.add(key);
    if (fault === undefined)
      into.push({ variable: variable.name, path: [...variable.path, key], value: text });
    else {
      const found = `${fault} ${JSON.stringify(item)}`;
      problems.push(
        `environment variable ${variable.name}: ${variable.path.join(".")}: ${found}; ` +
          "expected key=value pairs, each key once, such as listings=5m,sold=1h",
      );
    }
  }
}

/** Node's own switch against checking certificates: who meets a stranger there gives away what is signed. */
function unsafe(env: Environment): string[] {
  const name = "NODE_TLS_REJECT_UNAUTHORIZED";
  if (env[name] !== "0") return [];
  return [
    `environment variable ${name}: found "0", which asks Node to trust any certificate; expected it unset, and for ` +
      "authorities of your own upstream.caFile (UPSTREAM_CA_FILE) or redis.caFile (REDIS_CA_FILE)",
  ];
}

/**
 * Other programs' variables are none of our business, so only a name within one letter of ours
 * counts. Names of one word are left alone: `POST` is near `PORT` and `HOST` and means neither.
 */
function misspelled(env: Environment): string[] {
  const known = [...VARIABLES.map((variable) => variable.name), CONFIG_FILE];
  const others = Object.keys(env).filter((name) => env[name] && name.includes("_") && !known.includes(name));
  return others.flatMap((name) => {
    const meant = known.find((candidate) => candidate.includes("_") && almostSame(candidate, name));
    return meant ? [`environment variable ${name}: unknown; did you mean ${meant}?`] : [];
  });
}

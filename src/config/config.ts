import { fileURLToPath } from "node:url";

import { type Settings, settingsSchema } from "./config-schema.ts";
import { type Conflict, crossCheck, type ReadableSettings } from "./cross-check.ts";
import { type Assignment, CONFIG_FILE, type Environment, readEnvironment } from "./environment.ts";
import { type Given, readGiven } from "./given.ts";
import { ADMIN_TOKEN, PRIVATE_KEY } from "./given-secret.ts";
import { Secret, SECRET_TEXT } from "./secret.ts";
import { checkSettings, type SettingFault } from "./setting-check.ts";
import { describeFault } from "./setting-faults.ts";
import { formatPath, isMapping, valueAt } from "./setting-path.ts";
import { mergeSources, type SettingSources } from "./setting-sources.ts";
import { parseSettingsFile, type SettingsFile } from "./settings-file.ts";
import type { BudgetWindow } from "./units.ts";

/** The settings the gateway runs with: checked, frozen to the last leaf, units in the names. */
export interface Config {
  readonly server: {
    readonly host: string;
    /** 0 takes any free port. */
    readonly port: number;
    /** In lower case, as Node spells the names of incoming headers. */
    readonly appIdHeader: string;
    readonly maxUrlBytes: number;
    /** Of all headers together, without the URL. */
    readonly maxHeaderBytes: number;
    readonly maxHeaders: number;
    /** On each of the two ports. */
    readonly maxConnections: number;
    /** Until a request's headers are here. */
    readonly headersTimeoutMs: number;
    /** Until a whole request is here; at least `headersTimeoutMs`. */
    readonly requestTimeoutMs: number;
    readonly keepAliveTimeoutMs: number;
    /** Longest time in which a caller takes nothing of its answer. */
    readonly writeTimeoutMs: number;
    /** From the signal to stop until no more requests are taken. */
    readonly stopDelayMs: number;
    /** From then until what is left is refused. */
    readonly drainTimeoutMs: number;
  };
  readonly admin: {
    readonly host: string;
    /** 0 takes any free port. */
    readonly port: number;
    /** Guards all but health; `null`: nothing is guarded. */
    readonly token: Secret | null;
    /** Whether metrics are open to those without the token. */
    readonly openMetrics: boolean;
  };
  readonly upstream: {
    /** Without a trailing slash. */
    readonly url: string;
    /** Without a trailing slash. */
    readonly imageUrl: string;
    /** The certificate authorities to trust, as PEM; `null`: Node's own. */
    readonly ca: string | null;
    readonly service: string;
    readonly callerId: string;
    readonly privateKey: Secret;
    /** Where the key came from, and a new one is to be looked for; `null`: from the settings themselves. */
    readonly privateKeyFile: string | null;
    readonly userAgent: string;
    readonly referrer: string;
    /** Holds `{resource}` and `{serviceId}`, once each, as whole segments. */
    readonly recordPath: string;
    /** `{name}` stands for one segment, a final `*` for one or more. */
    readonly passThrough: readonly string[];
    readonly maxBodyBytes: number;
    readonly connections: number;
    readonly connectTimeoutMs: number;
    readonly headerTimeoutMs: number;
    /** Longest silence between two chunks. */
    readonly bodyTimeoutMs: number;
    /** The whole call, retries included. */
    readonly totalTimeoutMs: number;
    readonly retryDelayMs: number;
  };
  readonly query: {
    readonly unknown: "forward" | "drop" | "reject";
    readonly ignored: readonly string[];
  };
  /** Ids are distinct, and none is `other`. */
  readonly apps: readonly {
    readonly id: string;
    /** How large its share of the budget is, next to the others'. */
    readonly weight: number;
    /** Most upstream requests in any day; `null`: no limit of its own. */
    readonly perDay: number | null;
    readonly priority: "interactive" | "background";
    /** Whether its requests may have a fresh answer fetched anew. */
    readonly mayForceRefresh: boolean;
  }[];
  readonly cache: {
    /** Most memory for stored answers. */
    readonly maxBytes: number;
    /** Most disk for stored answers, where they are kept on disk. */
    readonly maxDiskBytes: number;
    /** How long an answer is kept at all, fresh or not. */
    readonly retentionMs: number;
    readonly ttlMs: PerKind;
    /** Whether lifetimes follow what was seen of each answer; `shadow`: only counted what that would have saved. */
    readonly adaptiveTtl: "off" | "shadow" | "on";
    readonly ttlMinMs: PerKind;
    readonly ttlMaxMs: PerKind;
    /** How long "not found" and "refused by the upstream" are remembered. */
    readonly negativeTtlMs: PerKind;
    /** How long after its life an answer is given at once while a new one is fetched. */
    readonly staleWhileRevalidateMs: PerKind;
    /** How long after its life an answer may stand in for one that cannot be had. */
    readonly staleIfErrorMs: PerKind;
    /** How long a caller waits for a new answer where a stale one may be given instead. */
    readonly maxWaitForFreshMs: number;
    /** No caller is given an answer older than this, fresh or stale. */
    readonly maxAgeEverMs: number;
    /** Whether what the upstream says of caching can shorten our times. */
    readonly honourUpstream: boolean;
    /** An answer younger than this is not fetched anew because a caller asks for it. */
    readonly minRefreshIntervalMs: number;
    /** Answers are refreshed before their time only while more than this part of the budget is left, from 0 to 1. */
    readonly earlyRefreshAbove: number;
  };
  readonly budget: {
    /** At least one window; lengths are distinct. */
    readonly limit: readonly BudgetWindow[];
    readonly concurrency: number;
    /** From a request's arrival to its answer. */
    readonly maxWaitMs: number;
    readonly images: readonly BudgetWindow[];
    /** `observe`: counted and reported, and nothing refused. */
    readonly mode: "enforce" | "observe";
    /** Part of each window that background work never touches, from 0 to 0.9. */
    readonly reserve: number;
    /** Most replicas that run at once. */
    readonly replicas: number;
    /** Part of each window that a replica may use while Redis is out of reach; all shares make at most 1. */
    readonly degradedShare: number;
    /** How long a replica cut off from Redis goes on with that share. */
    readonly degradedForMs: number;
    /** The longest the upstream is left alone because it asked for it. */
    readonly maxCoolOffMs: number;
  };
  readonly ledger: {
    /** How long a send is remembered; at least as long as the longest window. */
    readonly retentionMs: number;
    /** Most sends remembered, the oldest dropped first. */
    readonly maxRecords: number;
  };
  /** `null`: no Redis. */
  readonly redis: null | {
    /** A secret, because an address of this kind holds a password. */
    readonly url: Secret;
    readonly mode: "single" | "cluster" | "sentinel";
    readonly nodes: readonly RedisNode[];
    /** `null` unless the mode is `sentinel`. */
    readonly sentinel: null | { readonly name: string; readonly nodes: readonly RedisNode[] };
    /** The certificate authorities to trust, as PEM; `null`: Node's own. */
    readonly ca: string | null;
    /** The longest a command may take. */
    readonly timeoutMs: number;
    /** How often Redis is tried while it is out of order. */
    readonly probeIntervalMs: number;
  };
  /** `null`: nothing is kept on disk. */
  readonly dataDir: string | null;
  readonly log: { readonly level: "trace" | "debug" | "info" | "warn" | "error" | "silent" };
}

/** Milliseconds, for searches and images by resource, and for single records. */
type PerKind = Readonly<Record<"listings" | "sold" | "areas" | "records" | "images", number>>;

interface RedisNode {
  readonly host: string;
  readonly port: number;
}

/** Where the settings come from. */
export interface ConfigInput {
  readonly env: Environment;
  /** Reads a file as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
  /** Holds every setting with its default; `config/default.yaml` of this project where absent. */
  readonly defaultFile?: string;
}

/** The settings cannot be used; the message has a line per problem. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(["the configuration is not valid:", ...problems].join("\n  "));
    this.problems = problems;
  }
}

/** The settings, what is wrong with them, and which source gave what. */
export interface ExaminedConfig {
  /** Absent where there are problems. */
  readonly config?: Config;
  /** The same as it was read, under the written names; holds secrets. Absent where there are problems. */
  readonly settings?: Settings;
  /** What of it could be read, whatever is wrong with the rest; nothing where a file of settings could not be. */
  readonly readable: ReadableSettings;
  /** All sources together, as they are written; holds secrets. */
  readonly written: unknown;
  readonly problems: readonly string[];
  readonly defaultFile: string;
  readonly overlay?: SettingsFile;
  readonly assignments: readonly Assignment[];
}

/**
 * Loads the settings: defaults, overlaid by the file that `CONFIG_FILE` names, overlaid by the
 * environment.
 * @throws {ConfigError} with every problem there is
 */
export function loadConfig(input: ConfigInput): Config {
  const { config, problems } = examineConfig(input);
  if (!config) throw new ConfigError(problems);
  return config;
}

/** Does what {@link loadConfig} does, and tells instead of throwing. */
export function examineConfig({ env, readFile, defaultFile = DEFAULT_FILE }: ConfigInput): ExaminedConfig {
  const { assignments, problems } = readEnvironment(env);
  const defaults = readSettingsFile(defaultFile, "the defaults", readFile);
  const overlay = env[CONFIG_FILE]
    ? readSettingsFile(env[CONFIG_FILE], `environment variable ${CONFIG_FILE}`, readFile)
    : undefined;
  const unreadable = [...defaults.problems, ...(overlay?.problems ?? [])];
  const sources = mergeSources(defaults, overlay, assignments);
  const { settings, faults } = readSettings(sources.merged);
  // What is missing may well be in the file that could not be read.
  const mayBeMissing = unreadable.length === 0;
  const { given, problems: notGiven } = readGiven(settings, faults, sources, readFile, mayBeMissing);
  const lines = [
    ...unreadable,
    ...problems,
    ...faults
      .filter((fault) => mayBeMissing || fault.kind !== "missing")
      .map((fault) => describeFault(fault, sources)),
    ...notGiven,
    ...crossCheck(settings).map((conflict) => describeConflict(conflict, sources)),
  ].map((line) => withoutSecrets(line, sources.merged));
  const examined = {
    problems: lines,
    defaultFile,
    ...(overlay && { overlay }),
    assignments,
    readable: mayBeMissing ? settings : {},
    written: sources.merged,
  };
  if (lines.length > 0 || !given || !isComplete(settings, faults)) return examined;
  return { ...examined, settings, config: deepFreeze(toConfig(settings, given)) };
}

const DEFAULT_FILE = fileURLToPath(new URL("../../config/default.yaml", import.meta.url));

function readSettingsFile(path: string, role: string, readFile: (path: string) => string): SettingsFile {
  try {
    return parseSettingsFile(path, readFile(path));
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    const fault = `${role}: ${JSON.stringify(path)} cannot be read${code}; expected a YAML file of settings`;
    return { name: path, settings: {}, problems: [fault], lineOf: () => undefined };
  }
}

function readSettings(merged: unknown): { settings: ReadableSettings; faults: SettingFault[] } {
  const faults: SettingFault[] = [];
  const settings = checkSettings(settingsSchema, merged, [], faults);
  return { settings: isReadable(settings) ? settings : {}, faults };
}

/** What the check returns has the schema's form by construction. */
function isReadable(checked: unknown): checked is ReadableSettings {
  return isMapping(checked);
}

/** Without faults every setting was read. */
function isComplete(settings: ReadableSettings, faults: readonly SettingFault[]): settings is Settings {
  return isReadable(settings) && faults.length === 0;
}

function describeConflict({ paths, explanation }: Conflict, sources: SettingSources): string {
  const places = paths.map((path) => `${sources.nameOf(path)}: ${formatPath(path)}`);
  return `${places.join(", ")}: ${explanation}`;
}

/** A secret may also stand where it does not belong; a message about that place must not show it. */
function withoutSecrets(line: string, merged: unknown): string {
  const tooShortToTell = 6;
  return [PRIVATE_KEY, ADMIN_TOKEN]
    .map(({ path }) => valueAt(merged, path))
    .filter((secret) => typeof secret === "string" && secret.length >= tooShortToTell)
    .reduce((clean: string, secret) => clean.replaceAll(String(secret), SECRET_TEXT), line);
}

/** Gives the settings the names of their units. */
function toConfig(settings: Settings, { privateKey, token, authorities }: Given): Config {
  const { upstream, cache, ledger } = settings;
  return {
    server: toServer(settings.server),
    admin: {
      host: settings.admin.host ?? (token === null ? LOOPBACK : settings.server.host),
      port: settings.admin.port,
      token,
      openMetrics: settings.admin.openMetrics,
    },
    upstream: {
      url: upstream.url,
      imageUrl: upstream.imageUrl,
      ca: authorities.upstream,
      service: upstream.service,
      callerId: upstream.callerId,
      privateKey,
      privateKeyFile: upstream.privateKeyFile,
      userAgent: upstream.userAgent,
      referrer: upstream.referrer,
      recordPath: upstream.recordPath,
      passThrough: upstream.passThrough,
      maxBodyBytes: upstream.maxBody,
      connections: upstream.connections,
      connectTimeoutMs: upstream.connectTimeout,
      headerTimeoutMs: upstream.headerTimeout,
      bodyTimeoutMs: upstream.bodyTimeout,
      totalTimeoutMs: upstream.totalTimeout,
      retryDelayMs: upstream.retryDelay,
    },
    query: settings.query,
    apps: settings.apps,
    cache: {
      maxBytes: cache.maxBytes,
      maxDiskBytes: cache.maxDiskBytes,
      retentionMs: cache.retention,
      ttlMs: cache.ttl,
      adaptiveTtl: cache.adaptiveTtl,
      ttlMinMs: cache.ttlMin,
      ttlMaxMs: cache.ttlMax,
      negativeTtlMs: cache.negativeTtl,
      staleWhileRevalidateMs: cache.staleWhileRevalidate,
      staleIfErrorMs: cache.staleIfError,
      maxWaitForFreshMs: cache.maxWaitForFresh,
      maxAgeEverMs: cache.maxAgeEver,
      honourUpstream: cache.honourUpstream,
      minRefreshIntervalMs: cache.minRefreshInterval,
      earlyRefreshAbove: cache.earlyRefreshAbove,
    },
    budget: toBudget(settings.budget),
    ledger: { retentionMs: ledger.retention, maxRecords: ledger.maxRecords },
    redis: toRedis(settings.redis, authorities.redis),
    dataDir: settings.dataDir === "" ? null : settings.dataDir,
    log: settings.log,
  };
}

/** Where nothing guards the admin port, it is for this machine only, unless told otherwise. */
const LOOPBACK = "127.0.0.1";

function toServer(server: Settings["server"]): Config["server"] {
  return {
    host: server.host,
    port: server.port,
    appIdHeader: server.appIdHeader,
    maxUrlBytes: server.maxUrlLength,
    maxHeaderBytes: server.maxHeaderSize,
    maxHeaders: server.maxHeaders,
    maxConnections: server.maxConnections,
    headersTimeoutMs: server.headersTimeout,
    requestTimeoutMs: server.requestTimeout,
    keepAliveTimeoutMs: server.keepAliveTimeout,
    writeTimeoutMs: server.writeTimeout,
    stopDelayMs: server.stopDelay,
    drainTimeoutMs: server.drainTimeout,
  };
}

function toBudget(budget: Settings["budget"]): Config["budget"] {
  return {
    limit: budget.limit,
    concurrency: budget.concurrency,
    maxWaitMs: budget.maxWait,
    images: budget.images,
    mode: budget.mode,
    reserve: budget.reserve,
    replicas: budget.replicas,
    degradedShare: budget.degradedShare ?? 1 / budget.replicas,
    degradedForMs: budget.degradedFor,
    maxCoolOffMs: budget.maxCoolOff,
  };
}

function toRedis(
  { url, mode, nodes, sentinel, timeout, probeInterval }: Settings["redis"],
  ca: string | null,
): Config["redis"] {
  if (url === null) return null;
  return {
    url: new Secret(url),
    mode,
    nodes,
    sentinel:
      mode === "sentinel" && sentinel.master !== null
        ? { name: sentinel.master, nodes: sentinel.nodes }
        : null,
    ca,
    timeoutMs: timeout,
    probeIntervalMs: probeInterval,
  };
}

function deepFreeze<T>(value: T): T {
  if (isMapping(value) || Array.isArray(value)) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}

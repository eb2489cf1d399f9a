/**
 * The configuration: the validated settings, with secrets and certificates read from their files.
 */
import type { CertificatePair } from "./certificates.ts";
import type { Settings } from "./schema.ts";
import type { Secret } from "./secret.ts";
import type { SecretValues } from "./secrets.ts";
import { isMapping } from "./sources.ts";

/** The settings, with every value resolved that depends on other settings or on files. Deeply frozen. */
export interface Config extends Omit<Settings, "server" | "admin" | "upstream" | "apps" | "redis" | "warm"> {
  /** `tls`: `null` for plain HTTP. */
  readonly server: Omit<Settings["server"], "tls"> & { readonly tls: CertificatePair | null };
  readonly admin: Omit<Settings["admin"], "host" | "tokenFile" | "tls"> & {
    readonly host: string;
    /** `null`: the port needs no token. */
    readonly token: Secret | null;
    readonly tls: CertificatePair | null;
  };
  readonly upstream: Omit<Settings["upstream"], "caFile" | "privateKeyFile"> & {
    /** The certificate authorities to trust, as PEM; `null`: Node's own. */
    readonly ca: string | null;
    readonly privateKey: Secret;
  };
  /** The listed apps. */
  readonly apps: readonly (Omit<Settings["apps"]["listed"][number], "tokenFile"> & {
    /** `null`: requests need no token to use the id. */
    readonly token: Secret | null;
  })[];
  /** The weight of each unlisted app, and how many of them can have their own share at the same time. */
  readonly unlistedApps: { readonly weight: number; readonly max: number };
  /** `null`: no Redis. */
  readonly redis:
    | null
    | (Omit<Settings["redis"], "url" | "passwordFile" | "caFile" | "certFile" | "keyFile" | "sentinel"> & {
        readonly url: Secret;
        readonly password: Secret | null;
        /** `null` unless the mode is `sentinel`. */
        readonly sentinel: null | {
          readonly name: string;
          readonly nodes: Settings["redis"]["sentinel"]["nodes"];
          readonly password: Secret | null;
        };
        /** The certificate authorities to trust, as PEM; `null`: Node's own. */
        readonly ca: string | null;
        /** The gateway's client certificate; `null`: it has none. */
        readonly pair: CertificatePair | null;
      });
}

/** The settings are invalid. The message has one line for each problem. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(["the configuration is not valid:", ...problems].join("\n  "));
    this.problems = problems;
  }
}

/** The default address of the admin port without a token: only this machine can reach it. */
const LOOPBACK = "127.0.0.1";

/** @throws if there is no private key, which the check of the settings has already reported */
export function toConfig(settings: Settings, secrets: SecretValues): Config {
  const { privateKey, adminToken } = secrets;
  if (privateKey === null) throw new Error("there is no private key");
  const { warm: _warm, ...rest } = settings;
  const { tokenFile: _tokenFile, ...admin } = settings.admin;
  const { caFile: _caFile, privateKeyFile: _privateKeyFile, ...upstream } = settings.upstream;
  const { apps } = settings;
  return deepFreeze({
    ...rest,
    server: { ...settings.server, tls: secrets.serverPair },
    admin: {
      ...admin,
      token: adminToken,
      tls: secrets.adminPair,
      host: admin.host ?? (adminToken === null ? LOOPBACK : settings.server.host),
    },
    upstream: { ...upstream, ca: secrets.upstreamCa, privateKey },
    apps: apps.listed.map(({ tokenFile: _file, ...app }) => ({
      ...app,
      token: secrets.appTokens.get(app.id) ?? null,
    })),
    unlistedApps: { weight: apps.default, max: apps.maxUnlisted },
    redis: toRedis(settings.redis, secrets),
  });
}

function toRedis(
  { url, mode, nodes, sentinel, keyPrefix, timeoutMs, probeIntervalMs }: Settings["redis"],
  { redisPassword, sentinelPassword, redisCa, redisPair }: SecretValues,
): Config["redis"] {
  if (url === null) return null;
  const { master, passwordFile: _passwordFile, ...credentials } = sentinel;
  const isSentinel = mode === "sentinel" && master !== null;
  return {
    url,
    mode,
    nodes,
    keyPrefix,
    timeoutMs,
    probeIntervalMs,
    password: redisPassword,
    sentinel: isSentinel ? { ...credentials, name: master, password: sentinelPassword } : null,
    ca: redisCa,
    pair: redisPair,
  };
}

function deepFreeze<T>(value: T): T {
  if (isMapping(value) || Array.isArray(value)) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}

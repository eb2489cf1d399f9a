/**
 * The configuration: the validated settings, with secrets and certificates read from their files.
 */
import type { CertificatePair } from "./certificates.ts";
import type { Settings } from "./schema.ts";
import type { Secret } from "./secret.ts";
import type { ResolvedSecrets } from "./secrets.ts";
import { isMapping } from "./sources.ts";

/** The settings, with every value resolved that depends on other settings or on files. Deeply frozen. */
export interface Config extends Omit<Settings, "server" | "admin" | "upstream" | "apps" | "redis" | "warm"> {
  /** `tls`: `null` for plain HTTP. */
  readonly server: Omit<Settings["server"], "tls"> & { readonly tls: CertificatePair | null };
  readonly admin: Omit<Settings["admin"], "host" | "tokenFile" | "tls"> & {
    readonly host: string;
    readonly tls: CertificatePair | null;
  };
  readonly upstream: Omit<Settings["upstream"], "caFile" | "privateKey"> & {
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
    | (Omit<Settings["redis"], "url" | "caFile" | "certFile" | "keyFile" | "sentinel"> & {
        readonly url: Secret;
        /** `null` unless the mode is `sentinel`. */
        readonly sentinel: null | (Omit<Settings["redis"]["sentinel"], "master"> & { readonly name: string });
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

/** @returns the configuration for valid settings */
export function toConfig(settings: Settings, secrets: ResolvedSecrets): Config {
  const { privateKey, token, authorities, pairs } = secrets;
  const { warm: _warm, ...rest } = settings;
  const { tokenFile: _tokenFile, ...admin } = settings.admin;
  const { caFile: _caFile, ...upstream } = settings.upstream;
  const { apps } = settings;
  return deepFreeze({
    ...rest,
    server: { ...settings.server, tls: pairs.server },
    admin: {
      ...admin,
      token,
      tls: pairs.admin,
      host: admin.host ?? (token === null ? LOOPBACK : settings.server.host),
    },
    upstream: { ...upstream, ca: authorities.upstream, privateKey },
    apps: apps.listed.map(({ tokenFile: _tokenFile, ...app }) => ({
      ...app,
      token: secrets.appTokens.get(app.id) ?? null,
    })),
    unlistedApps: { weight: apps.default, max: apps.maxUnlisted },
    redis: toRedis(settings.redis, secrets),
  });
}

function toRedis(
  { caFile: _caFile, certFile: _certFile, keyFile: _keyFile, url, sentinel, ...rest }: Settings["redis"],
  { authorities, pairs, redisPassword, sentinelPassword }: ResolvedSecrets,
): Config["redis"] {
  if (url === null) return null;
  const { master, ...others } = sentinel;
  const isSentinel = rest.mode === "sentinel" && master !== null;
  return {
    ...rest,
    url,
    password: redisPassword,
    sentinel: isSentinel ? { ...others, name: master, password: sentinelPassword } : null,
    ca: authorities.redis,
    pair: pairs.redis,
  };
}

function deepFreeze<T>(value: T): T {
  if (isMapping(value) || Array.isArray(value)) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}

/**
 * The settings the gateway runs with.
 */
import type { Settings } from "./schema.ts";
import type { Secret } from "./secret.ts";
import type { ResolvedSecrets } from "./secrets.ts";
import { isMapping } from "./sources.ts";

/** The settings with everything resolved that depends on other settings or on files; frozen to the last leaf. */
export interface Config extends Omit<Settings, "admin" | "upstream" | "apps" | "redis" | "warm"> {
  readonly admin: Omit<Settings["admin"], "host" | "tokenFile"> & { readonly host: string };
  readonly upstream: Omit<Settings["upstream"], "caFile" | "privateKey"> & {
    /** The certificate authorities to trust, as PEM; `null`: Node's own. */
    readonly ca: string | null;
    readonly privateKey: Secret;
  };
  /** The listed apps. */
  readonly apps: Settings["apps"]["listed"];
  /** The weight of each unlisted app, and how many of them have a share of their own at a time. */
  readonly unlistedApps: { readonly weight: number; readonly max: number };
  /** `null`: no Redis. */
  readonly redis:
    | null
    | (Omit<Settings["redis"], "url" | "caFile" | "sentinel"> & {
        readonly url: Secret;
        /** `null` unless the mode is `sentinel`. */
        readonly sentinel: null | { readonly name: string; readonly nodes: Settings["redis"]["nodes"] };
        /** The certificate authorities to trust, as PEM; `null`: Node's own. */
        readonly ca: string | null;
      });
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

/** Without a token, the admin port is for this machine only, unless the settings say otherwise. */
const LOOPBACK = "127.0.0.1";

/** Makes the configuration of valid settings. */
export function toConfig(settings: Settings, { privateKey, token, authorities }: ResolvedSecrets): Config {
  const { warm: _warm, ...rest } = settings;
  const { tokenFile: _tokenFile, ...admin } = settings.admin;
  const { caFile: _caFile, ...upstream } = settings.upstream;
  const { apps } = settings;
  return deepFreeze({
    ...rest,
    admin: { ...admin, token, host: admin.host ?? (token === null ? LOOPBACK : settings.server.host) },
    upstream: { ...upstream, ca: authorities.upstream, privateKey },
    apps: apps.listed,
    unlistedApps: { weight: apps.default, max: apps.maxUnlisted },
    redis: toRedis(settings.redis, authorities.redis),
  });
}

function toRedis(
  { caFile: _caFile, url, sentinel, ...rest }: Settings["redis"],
  ca: string | null,
): Config["redis"] {
  if (url === null) return null;
  const { master, nodes } = sentinel;
  const isSentinel = rest.mode === "sentinel" && master !== null;
  return { ...rest, url, sentinel: isSentinel ? { name: master, nodes } : null, ca };
}

function deepFreeze<T>(value: T): T {
  if (isMapping(value) || Array.isArray(value)) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}

/**
 * The configuration: the validated settings, with secrets and certificates read from their files.
 */
import type { Constants } from "./constants.ts";
import type { Settings } from "./schema.ts";
import type { Secret } from "./secrets/secret.ts";
import type { SecretValues } from "./secrets/read-secret-files.ts";
import { isMapping } from "./sources.ts";

/** The settings and constants, with every value resolved that depends on other settings or on files. Deeply frozen. */
export type Config = ReturnType<typeof toConfig>;

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
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function toConfig(settings: Settings, secrets: SecretValues, constants: Constants) {
  const { "upstream.privateKey": privateKey, adminToken: token } = secrets;
  if (privateKey === null) throw new Error("there is no private key");
  const { server, admin, upstream, cache, budget, log, apps, redis, warm: _warm, ...rest } = settings;
  return deepFreeze({
    ...rest,
    ledger: constants.ledger,
    cache: { ...constants.cache, ...cache },
    budget: { ...constants.budget, ...budget },
    log: { ...constants.log, ...log },
    /** `tls`: `null` for plain HTTP. */
    server: { ...constants.server, ...server, tls: secrets["server.tls"] },
    /** `token`: `null` if the port needs none. */
    admin: {
      ...admin,
      token,
      tls: secrets["admin.tls"],
      host: admin.host ?? (token === null ? LOOPBACK : server.host),
    },
    /** `ca`: the certificate authorities to trust, as PEM; `null`: Node's own. */
    upstream: { ...constants.upstream, ...upstream, ca: secrets.upstreamCa, privateKey },
    /** The listed apps. `token`: `null` if requests need none to use the id. */
    apps: apps.listed.map((app) => ({ ...app, token: secrets.apps.get(app.id) ?? null })),
    /** The weight of each unlisted app, and how many of them can have their own share at the same time. */
    unlistedApps: { ...constants.unlistedApps, share: apps.unlistedShare },
    /** `null`: no Redis. */
    redis: redis.url === null ? null : { ...constants.redis, ...toRedis(redis, redis.url, secrets) },
  });
}

// oxlint-disable-next-line typescript/explicit-function-return-type
function toRedis(redis: Settings["redis"], url: Secret, secrets: SecretValues) {
  const { master: name, nodes } = redis.sentinel;
  return {
    ...redis,
    url,
    password: secrets.redis.password,
    sentinel:
      redis.mode === "sentinel" && name !== null
        ? { name, nodes, password: secrets.redis.sentinelPassword }
        : null,
    ca: secrets.redisCa,
    pair: secrets.redis.pair,
  };
}

function deepFreeze<T>(value: T): T {
  if (isMapping(value) || Array.isArray(value)) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}

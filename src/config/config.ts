/**
 * The configuration: the validated settings, with secrets and certificates read from their files.
 */
import type { Constants } from "./timeouts-and-limits.ts";
import type { Settings } from "./settings.ts";
import type { Secret } from "./secrets/secret.ts";
import type { CertificatePair, SecretValues } from "./secrets/read-secret-files.ts";

/** The settings and constants, with every value resolved that depends on other settings or on files. */
export type Config = ReturnType<typeof toConfig>;

/** The settings are invalid. The message has one line for each problem. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";

  constructor(problems: readonly string[]) {
    super(["the configuration is not valid:", ...problems].join("\n  "));
  }
}

/** The default address of the admin port without a token: only this machine can reach it. */
const LOOPBACK = "127.0.0.1";

/** @throws if there is no private key, which the check of the settings has already reported */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function toConfig(settings: Settings, secrets: SecretValues, constants: Constants) {
  const privateKey = secrets.get("upstream.privateKeyFile");
  if (privateKey === undefined) throw new Error("there is no private key");
  const { server, admin: _admin, upstream, cache, budget, log, apps, redis, warm: _warm, ...rest } = settings;
  return {
    ...rest,
    ledger: constants.ledger,
    cache: { ...constants.cache, ...cache },
    budget: { ...constants.budget, ...budget },
    log: { ...constants.log, ...log },
    /** `tls`: `null` for plain HTTP. */
    server: { ...constants.server, ...server, tls: pairOf(secrets, "server.tls") },
    admin: toAdmin(settings, secrets),
    /** `ca`: the certificate authorities to trust, as PEM; `null`: Node's own. */
    upstream: { ...constants.upstream, ...upstream, ca: textOf(secrets, "upstream.caFile"), privateKey },
    /** The listed apps. `token`: `null` if requests need none to use the id. */
    apps: apps.listed.map((app) => ({ ...app, token: secrets.get(`apps.${app.id}`) ?? null })),
    /** The weight of each unlisted app, and how many of them can have their own share at the same time. */
    unlistedApps: { ...constants.unlistedApps, share: apps.unlistedShare },
    /** `null`: no Redis. */
    redis: redis.url === null ? null : { ...constants.redis, ...toRedis(redis, redis.url, secrets) },
  };
}

/** The admin port. `token`: `null` if it needs none. A section with mistakes is missing: its defaults apply. */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function toAdmin({ admin, server }: Partial<Settings>, secrets: SecretValues) {
  const token = secrets.get("admin.tokenFile") ?? null;
  const host = admin?.host ?? (token === null ? undefined : server?.host) ?? LOOPBACK;
  return { port: 9090, ...admin, token, tls: pairOf(secrets, "admin.tls"), host };
}

// oxlint-disable-next-line typescript/explicit-function-return-type
function toRedis(redis: Settings["redis"], url: Secret, secrets: SecretValues) {
  const { master: name, nodes } = redis.sentinel;
  return {
    ...redis,
    url,
    password: secrets.get("redis.passwordFile") ?? null,
    sentinel:
      redis.mode === "sentinel" && name !== null
        ? { name, nodes, password: secrets.get("redis.sentinel.passwordFile") ?? null }
        : null,
    ca: textOf(secrets, "redis.caFile"),
    pair: pairOf(secrets, "redis"),
  };
}

function textOf(secrets: SecretValues, path: string): string | null {
  return secrets.get(path)?.reveal() ?? null;
}

/** @param section has the settings `certFile` and `keyFile` */
function pairOf(secrets: SecretValues, section: string): CertificatePair | null {
  const cert = textOf(secrets, `${section}.certFile`);
  const key = secrets.get(`${section}.keyFile`);
  return cert === null || key === undefined ? null : { cert, key };
}

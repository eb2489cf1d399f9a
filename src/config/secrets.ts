/**
 * Reads the secrets and certificates that the settings name.
 */
import { type CertificatePair, readAuthorities, readPair } from "./certificates.ts";
import type { Settings } from "./schema.ts";
import { Secret, SECRET_TEXT } from "./secret.ts";
import type { SettingPath } from "./sources.ts";
import { codeOf } from "./yaml-file.ts";

/** The secrets and certificates that the settings name; `null` for those that they do not name. */
export interface SecretValues {
  readonly privateKey: Secret | null;
  readonly adminToken: Secret | null;
  readonly redisPassword: Secret | null;
  readonly sentinelPassword: Secret | null;
  /** The tokens by app id. */
  readonly appTokens: ReadonlyMap<string, Secret>;
  /** Certificate authorities as PEM; `null`: Node's own. */
  readonly upstreamCa: string | null;
  readonly redisCa: string | null;
  /** The gateway's own certificates. */
  readonly serverPair: CertificatePair | null;
  readonly adminPair: CertificatePair | null;
  readonly redisPair: CertificatePair | null;
}

/** Settings that are valid separately but conflict with each other, or with the files that they name. */
export interface Conflict {
  /** The conflicting settings. The first one most likely needs the change. */
  readonly paths: readonly SettingPath[];
  readonly explanation: string;
}

type ReadFile = (path: string) => string;

export interface SecretSources {
  /** Sections with mistakes are missing. */
  readonly settings: Partial<Settings>;
  /** The secrets that environment variables hold, by the name of the variable. */
  readonly given: ReadonlyMap<string, string>;
  readonly readFile: ReadFile;
}

/**
 * Reads all of them.
 * @param previous replaces a value that cannot be read
 */
export function readSecrets(
  sources: SecretSources,
  previous?: SecretValues,
): { readonly values: SecretValues; readonly problems: readonly Conflict[] } {
  const { server, admin, upstream, redis, apps } = sources.settings;
  const { problems, secret, token, authorities, pair } = createReader(sources, previous);
  const appTokens = (apps?.listed ?? []).flatMap(({ id, tokenFile }, index): [string, Secret][] => {
    const read = tokenFile === null ? undefined : (token(index, tokenFile) ?? previous?.appTokens.get(id));
    return read ? [[id, read]] : [];
  });
  const values = {
    privateKey: secret("privateKey", upstream?.privateKeyFile),
    adminToken: secret("adminToken", admin?.tokenFile),
    redisPassword: secret("redisPassword", redis?.passwordFile),
    sentinelPassword: secret("sentinelPassword", redis?.sentinel.passwordFile),
    appTokens: new Map(appTokens),
    upstreamCa: previous ? previous.upstreamCa : authorities("upstream.caFile", upstream?.caFile),
    redisCa: previous ? previous.redisCa : authorities("redis.caFile", redis?.caFile),
    serverPair: pair("serverPair", "server.tls", server?.tls),
    adminPair: pair("adminPair", "admin.tls", admin?.tls),
    redisPair: pair("redisPair", "redis", redis),
  };
  return { values, problems };
}

/** Reads one value at a time, and collects the problems. */
function createReader({ given, readFile }: SecretSources, previous?: SecretValues) {
  const problems: Conflict[] = [];
  const complain = (path: string, explanation: string): void =>
    void problems.push({ paths: [path.split(".")], explanation });

  function secret(name: keyof typeof SECRETS, file: string | null | undefined): Secret | null {
    const kind = SECRETS[name];
    const own = given.get(kind.variable);
    if (own !== undefined && file) {
      complain(kind.path, `${kind.variable} is set, too; expected exactly one of the two`);
    } else if (own !== undefined) {
      if (kind.pattern.test(own)) return new Secret(own);
      const explanation = `environment variable ${kind.variable}: found ${SECRET_TEXT}; expected ${kind.expected}`;
      problems.push({ paths: [], explanation });
    } else {
      const read = file ? readSecretFile(file, kind, readFile) : null;
      if (typeof read !== "string") return read;
      complain(kind.path, read);
    }
    return previous?.[name] ?? null;
  }

  function token(index: number, file: string): Secret | undefined {
    const read = readSecretFile(file, SECRETS.adminToken, readFile);
    if (typeof read !== "string") return read;
    problems.push({ paths: [["apps", "listed", index, "tokenFile"]], explanation: read });
    return undefined;
  }

  function authorities(path: string, file: string | null | undefined): string | null {
    const read = file ? readAuthorities(file, readFile) : null;
    if (read === null || "pem" in read) return read?.pem ?? null;
    complain(path, `${read.fault}; expected the path of a file with certificates in PEM form`);
    return null;
  }

  function pair(name: PairName, path: string, { certFile, keyFile }: PairFiles = {}): CertificatePair | null {
    if (!certFile && !keyFile) return null;
    if (!certFile || !keyFile) {
      const missing = certFile ? "keyFile" : "certFile";
      complain(`${path}.${missing}`, "is missing; expected both certFile and keyFile, or neither");
      return null;
    }
    const read = readPair(certFile, keyFile, readFile);
    if ("cert" in read) return read;
    complain(`${path}.${read.of}`, read.fault);
    return previous?.[name] ?? null;
  }

  return { problems, secret, token, authorities, pair };
}

type PairName = "serverPair" | "adminPair" | "redisPair";

interface PairFiles {
  readonly certFile?: string | null;
  readonly keyFile?: string | null;
}

/** @returns the files whose content may change while the process runs */
export function secretFilesIn({ server, admin, upstream, redis, apps }: Settings): string[] {
  return [
    upstream.privateKeyFile,
    redis.passwordFile,
    redis.sentinel.passwordFile,
    ...apps.listed.map(({ tokenFile }) => tokenFile),
    ...[server.tls, admin.tls, redis].flatMap(({ certFile, keyFile }) => [certFile, keyFile]),
  ].filter((file) => file !== null);
}

/** A secret in an environment variable, or in a file that a setting names. */
interface SecretKind {
  readonly variable: string;
  /** The setting with the path of the file. */
  readonly path: string;
  /** The name of the secret in messages. */
  readonly what: string;
  readonly pattern: RegExp;
  readonly expected: string;
}

const ONE_LINE = {
  pattern: /^[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u,
  expected: "one line of text without blanks around it",
};

const PASSWORD = { ...ONE_LINE, what: "password" };

const SECRETS = {
  privateKey: {
    ...ONE_LINE,
    variable: "UPSTREAM_PRIVATE_KEY",
    path: "upstream.privateKeyFile",
    what: "key",
  },
  adminToken: {
    variable: "ADMIN_TOKEN",
    path: "admin.tokenFile",
    what: "token",
    // A bearer token in a header (RFC 6750, section 2.1). A shorter one could be guessed.
    pattern: /^(?=.{16})[A-Za-z0-9._~+/-]+=*$/,
    expected: "one line of at least 16 letters, digits and -._~+/",
  },
  redisPassword: { ...PASSWORD, variable: "REDIS_PASSWORD", path: "redis.passwordFile" },
  sentinelPassword: {
    ...PASSWORD,
    variable: "REDIS_SENTINEL_PASSWORD",
    path: "redis.sentinel.passwordFile",
  },
} as const satisfies Record<string, SecretKind>;

/**
 * Reads a file with a secret. Drops one newline at the end of the file, because editors and `echo` add it. If the file
 * cannot be read, the message shows the path only if it clearly is a path, because it may be the secret itself.
 * @returns the secret, or what is wrong with the file
 */
function readSecretFile(
  path: string,
  { what, pattern, expected }: SecretKind,
  readFile: ReadFile,
): Secret | string {
  let content: string;
  try {
    content = readFile(path);
  } catch (error) {
    const shown = isPlainlyPath(path) ? JSON.stringify(path) : "the file";
    return `${shown} cannot be read${codeOf(error)}; expected the path of a file that holds the ${what}`;
  }
  const secret = content.replace(/\r?\n$/, "");
  if (secret === "") return `${JSON.stringify(path)} is empty; expected it to hold the ${what}`;
  if (pattern.test(secret)) return new Secret(secret);
  return `${JSON.stringify(path)} does not hold a ${what}; expected ${expected}`;
}

/** Whether the text starts like a path, and has no character that is common in secrets (base64) and rare in paths. */
function isPlainlyPath(text: string): boolean {
  return /^\.{0,2}\/[^+=\p{Cc}]+$/u.test(text);
}

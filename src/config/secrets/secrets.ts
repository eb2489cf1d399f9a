/**
 * Reads the secrets and certificates that the settings name: secrets from files or environment variables, certificates and
 * private keys from files in PEM form.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";

import type { Settings } from "../schema.ts";
import { Secret, SECRET_TEXT } from "./secret.ts";
import { type SettingPath, valueAt } from "../sources.ts";
import { codeOf } from "../yaml-file.ts";

/** A certificate with its chain, and its private key, both as PEM. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: Secret;
}

/** The secrets and certificates that the settings name; `null` for those that they do not name. */
export interface SecretValues extends Readonly<Record<SecretName, Secret | null>> {
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

const LINE = {
  pattern: /^[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u,
  expected: "one line of text without blanks around it",
};
/** A bearer token in a header (RFC 6750, section 2.1). A shorter one could be guessed. */
const TOKEN = {
  what: "token",
  pattern: /^(?=.{16})[A-Za-z0-9._~+/-]+=*$/,
  expected: "one line of at least 16 letters, digits and -._~+/",
};
const PASSWORD = { ...LINE, what: "password" };

const SECRETS = {
  privateKey: { ...LINE, what: "key", variable: "UPSTREAM_PRIVATE_KEY", path: "upstream.privateKeyFile" },
  adminToken: { ...TOKEN, variable: "ADMIN_TOKEN", path: "admin.tokenFile" },
  redisPassword: { ...PASSWORD, variable: "REDIS_PASSWORD", path: "redis.passwordFile" },
  sentinelPassword: {
    ...PASSWORD,
    variable: "REDIS_SENTINEL_PASSWORD",
    path: "redis.sentinel.passwordFile",
  },
} satisfies Record<string, SecretKind>;
type SecretName = keyof typeof SECRETS;

/** The sections with `certFile` and `keyFile`. */
const PAIRS = { serverPair: "server.tls", adminPair: "admin.tls", redisPair: "redis" } as const;

/** What is wrong with a file or variable. */
class Fault extends Error {
  /** The wrong settings; absent: the setting that names the file. */
  readonly paths: readonly SettingPath[] | undefined;
  constructor(explanation: string, paths?: readonly SettingPath[]) {
    super(explanation);
    this.paths = paths;
  }
}

/**
 * Reads all of them.
 * @param previous replaces a value that cannot be read
 */
export function readSecrets(
  { settings, given, readFile }: SecretSources,
  previous?: SecretValues,
): { readonly values: SecretValues; readonly problems: readonly Conflict[] } {
  const problems: Conflict[] = [];

  function read<T>(
    path: SettingPath,
    before: T | null | undefined,
    from: (file: string) => T | null,
  ): T | null {
    try {
      return from(fileAt(settings, path));
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      problems.push({ paths: fault.paths ?? [path], explanation: fault.message });
      return before ?? null;
    }
  }
  function secret(name: SecretName): Secret | null {
    const kind = SECRETS[name];
    const own = given.get(kind.variable);
    return read(kind.path.split("."), previous?.[name], (file) => {
      if (own === undefined) return file === "" ? null : secretIn(file, kind, readFile);
      if (file !== "") throw new Fault(`${kind.variable} is set, too; expected exactly one of the two`);
      if (kind.pattern.test(own)) return new Secret(own);
      throw new Fault(
        `environment variable ${kind.variable}: found ${SECRET_TEXT}; expected ${kind.expected}`,
        [],
      );
    });
  }
  const authorities = (path: string): string | null =>
    read(path.split("."), undefined, (file) => (file === "" ? null : authoritiesIn(file, readFile)));
  const pair = (name: keyof typeof PAIRS): CertificatePair | null => {
    const section = PAIRS[name].split(".");
    const keyFile = fileAt(settings, [...section, "keyFile"]);
    return read([...section, "certFile"], previous?.[name], (certFile) =>
      pairIn(certFile, keyFile, [...section, "keyFile"], readFile),
    );
  };
  const tokens = (settings.apps?.listed ?? []).map(({ id }, at): [string, Secret | null] => [
    id,
    read(["apps", "listed", at, "tokenFile"], previous?.appTokens.get(id), (file) =>
      file === "" ? null : secretIn(file, TOKEN, readFile),
    ),
  ]);
  const values = {
    privateKey: secret("privateKey"),
    adminToken: secret("adminToken"),
    redisPassword: secret("redisPassword"),
    sentinelPassword: secret("sentinelPassword"),
    appTokens: new Map(tokens.flatMap(([id, token]) => (token === null ? [] : [[id, token]]))),
    upstreamCa: previous ? previous.upstreamCa : authorities("upstream.caFile"),
    redisCa: previous ? previous.redisCa : authorities("redis.caFile"),
    serverPair: pair("serverPair"),
    adminPair: pair("adminPair"),
    redisPair: pair("redisPair"),
  };
  return { values, problems };
}

/** @returns the files whose content may change while the process runs */
export function secretFilesIn(settings: Settings): string[] {
  const paths = [
    ...Object.values(SECRETS).map(({ path }) => path.split(".")),
    ...Object.values(PAIRS).flatMap((section) => [
      `${section}.certFile`.split("."),
      `${section}.keyFile`.split("."),
    ]),
    ...settings.apps.listed.map((_, at) => ["apps", "listed", at, "tokenFile"]),
  ];
  return paths.map((path) => fileAt(settings, path)).filter((file) => file !== "");
}

/** @returns the path of a file that a setting holds; empty if there is none */
function fileAt(settings: Partial<Settings>, path: SettingPath): string {
  const file = valueAt(settings, path);
  return typeof file === "string" ? file : "";
}

/**
 * Reads a file with a secret. Drops one newline at the end of the file, because editors and `echo` add it. If the file
 * cannot be read, the message shows the path only if it clearly is a path, because it may be the secret itself.
 */
function secretIn(
  file: string,
  { what, pattern, expected }: Pick<SecretKind, "what" | "pattern" | "expected">,
  readFile: ReadFile,
): Secret {
  const shown = JSON.stringify(file);
  let content: string;
  try {
    content = readFile(file);
  } catch (error) {
    const named = isPlainlyPath(file) ? shown : "the file";
    throw new Fault(
      `${named} cannot be read${codeOf(error)}; expected the path of a file that holds the ${what}`,
    );
  }
  const secret = content.replace(/\r?\n$/, "");
  if (secret === "") throw new Fault(`${shown} is empty; expected it to hold the ${what}`);
  if (!pattern.test(secret)) throw new Fault(`${shown} does not hold a ${what}; expected ${expected}`);
  return new Secret(secret);
}

/** Whether the text starts like a path, and has no character that is common in secrets (base64) and rare in paths. */
function isPlainlyPath(text: string): boolean {
  return /^\.{0,2}\/[^+=\p{Cc}]+$/u.test(text);
}

/** Reads certificates. Refuses a file without any, because TLS itself would then trust no server. */
function authoritiesIn(file: string, readFile: ReadFile, what = "certificates"): string {
  const expected = `expected the path of a file with ${what} in PEM form`;
  let pem: string;
  try {
    pem = readFile(file);
  } catch (error) {
    throw new Fault(`${JSON.stringify(file)} cannot be read${codeOf(error)}; ${expected}`);
  }
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs) ?? [];
  const begun = pem.split("-----BEGIN CERTIFICATE-----").length - 1;
  if (blocks.length === 0 || begun !== blocks.length || !blocks.every(isCertificate))
    throw new Fault(`${JSON.stringify(file)} contains no certificate, or an invalid one; ${expected}`);
  return pem;
}

function isCertificate(block: string): boolean {
  try {
    return new X509Certificate(block).raw.length > 0;
  } catch {
    return false;
  }
}

/** @param keyPath the setting that names `keyFile` */
function pairIn(
  certFile: string,
  keyFile: string,
  keyPath: SettingPath,
  readFile: ReadFile,
): CertificatePair | null {
  if (certFile === "" && keyFile === "") return null;
  if (certFile === "" || keyFile === "")
    throw new Fault(
      "is missing; expected both certFile and keyFile, or neither",
      certFile === "" ? undefined : [keyPath],
    );
  const cert = authoritiesIn(certFile, readFile, "a certificate");
  const name = JSON.stringify(keyFile);
  let isOwnKey: boolean;
  let key: string;
  try {
    key = readFile(keyFile);
    isOwnKey = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    const why = codeOf(error);
    throw new Fault(
      `${name} holds no private key that can be read${why}; expected one in PEM form, not encrypted`,
      [keyPath],
    );
  }
  if (!isOwnKey) throw new Fault(`${name} holds the key of another certificate`, [keyPath]);
  return { cert, key: new Secret(key) };
}

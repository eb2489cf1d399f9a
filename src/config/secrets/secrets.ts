/**
 * Reads the secrets and certificates that the settings name: secrets from files or environment variables, certificates and
 * private keys from files in PEM form.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";

import type { Settings } from "../schema.ts";
import { type Mistake, type SettingPath, valueAt } from "../sources.ts";
import { codeOf } from "../yaml-file.ts";
import { Secret, SECRET_TEXT } from "./secret.ts";

/** A certificate with its chain, and its private key, both as PEM. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: Secret;
}

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
  /** The files of these values that are read again when they change: all but those of the authorities. */
  readonly files: readonly string[];
}

type ReadFile = (path: string) => string;

export interface SecretSources {
  /** Sections with mistakes are missing. */
  readonly settings: Partial<Settings>;
  /** The secrets that environment variables hold, by the name of the variable. */
  readonly given: ReadonlyMap<string, string>;
  readonly readFile: ReadFile;
}

/** What a secret looks like. */
interface SecretKind {
  /** Its name in messages. */
  readonly what: string;
  readonly pattern: RegExp;
  readonly expected: string;
}

const KEY = {
  what: "key",
  pattern: /^[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u,
  expected: "one line of text without blanks around it",
};
const PASSWORD = { ...KEY, what: "password" };
/** A bearer token in a header (RFC 6750, section 2.1). A shorter one could be guessed. */
const TOKEN = {
  what: "token",
  pattern: /^(?=.{16})[A-Za-z0-9._~+/-]+=*$/,
  expected: "one line of at least 16 letters, digits and -._~+/",
};

/** What is wrong with a file or variable. */
class Fault extends Error {
  /** The wrong settings; absent: the setting that names the file. */
  readonly paths: readonly SettingPath[] | undefined;
  constructor(says: string, paths?: readonly SettingPath[]) {
    super(says);
    this.paths = paths;
  }
}

/**
 * Reads all of them.
 * @param previous replaces a value that cannot be read
 */
export function readSecrets(
  sources: SecretSources,
  previous?: SecretValues,
): { readonly values: SecretValues; readonly mistakes: readonly Mistake[] } {
  const { secret, pair, authorities, files, mistakes } = createReader(sources);
  // The authorities are read only once, because connections keep those that they began with.
  const { upstreamCa, redisCa } = previous ?? {
    upstreamCa: authorities(["upstream", "caFile"]),
    redisCa: authorities(["redis", "caFile"]),
  };
  const { privateKey, adminToken, redisPassword, sentinelPassword, appTokens } = previous ?? {};
  const sentinelFile = ["redis", "sentinel", "passwordFile"];
  const values = {
    privateKey: secret(["upstream", "privateKeyFile"], KEY, privateKey, "UPSTREAM_PRIVATE_KEY"),
    adminToken: secret(["admin", "tokenFile"], TOKEN, adminToken, "ADMIN_TOKEN"),
    redisPassword: secret(["redis", "passwordFile"], PASSWORD, redisPassword, "REDIS_PASSWORD"),
    sentinelPassword: secret(sentinelFile, PASSWORD, sentinelPassword, "REDIS_SENTINEL_PASSWORD"),
    appTokens: new Map(
      (sources.settings.apps?.listed ?? []).flatMap(({ id }, at) => {
        const token = secret(["apps", "listed", at, "tokenFile"], TOKEN, appTokens?.get(id));
        return token === null ? [] : [[id, token] as const];
      }),
    ),
    upstreamCa,
    redisCa,
    serverPair: pair(["server", "tls"], previous?.serverPair),
    adminPair: pair(["admin", "tls"], previous?.adminPair),
    redisPair: pair(["redis"], previous?.redisPair),
    files,
  };
  return { values, mistakes };
}

/** @returns functions that read what a setting names, `null` if it names nothing, and collect the mistakes */
// oxlint-disable-next-line typescript/explicit-function-return-type
function createReader({ settings, given, readFile }: SecretSources) {
  const mistakes: Mistake[] = [];
  const files: string[] = [];

  function read<T>(path: SettingPath, before: T | null, from: (file: string) => T | null): T | null {
    try {
      return from(fileAt(settings, path));
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      mistakes.push({ paths: fault.paths ?? [path], says: fault.message });
      return before;
    }
  }

  function secret(path: SettingPath, kind: SecretKind, before?: Secret | null, variable = ""): Secret | null {
    return read(path, before ?? null, (file) => {
      if (file !== "") files.push(file);
      const own = given.get(variable);
      if (own === undefined) return file === "" ? null : secretIn(file, kind, readFile);
      if (file !== "") throw new Fault(`${variable} is set, too; expected exactly one of the two`);
      if (kind.pattern.test(own)) return new Secret(own);
      const says = `environment variable ${variable}: found ${SECRET_TEXT}; expected ${kind.expected}`;
      throw new Fault(says, []);
    });
  }

  function pair(section: readonly string[], before?: CertificatePair | null): CertificatePair | null {
    const keyPath = [...section, "keyFile"];
    const keyFile = fileAt(settings, keyPath);
    return read([...section, "certFile"], before ?? null, (certFile) => {
      files.push(...[certFile, keyFile].filter((file) => file !== ""));
      return pairIn(certFile, keyFile, keyPath, readFile);
    });
  }

  const authorities = (path: SettingPath): string | null =>
    read(path, null, (file) => (file === "" ? null : authoritiesIn(file, readFile)));
  return { secret, pair, authorities, files, mistakes };
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
function secretIn(file: string, { what, pattern, expected }: SecretKind, readFile: ReadFile): Secret {
  const shown = JSON.stringify(file);
  // It starts like a path, and has no character that is common in secrets (base64) and rare in paths.
  const isPlainlyPath = /^\.{0,2}\/[^+=\p{Cc}]+$/u.test(file);
  const named = isPlainlyPath ? shown : "the file";
  const content = contentOf(file, named, `the path of a file that holds the ${what}`, readFile);
  const secret = content.replace(/\r?\n$/, "");
  if (secret === "") throw new Fault(`${shown} is empty; expected it to hold the ${what}`);
  if (!pattern.test(secret)) throw new Fault(`${shown} does not hold a ${what}; expected ${expected}`);
  return new Secret(secret);
}

function contentOf(file: string, named: string, expected: string, readFile: ReadFile): string {
  try {
    return readFile(file);
  } catch (error) {
    throw new Fault(`${named} cannot be read${codeOf(error)}; expected ${expected}`);
  }
}

/** Reads certificates. Refuses a file without any, because TLS itself would then trust no server. */
function authoritiesIn(file: string, readFile: ReadFile, what = "certificates"): string {
  const named = JSON.stringify(file);
  const expected = `the path of a file with ${what} in PEM form`;
  const pem = contentOf(file, named, expected, readFile);
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs) ?? [];
  const begun = pem.split("-----BEGIN CERTIFICATE-----").length - 1;
  if (blocks.length === 0 || begun !== blocks.length || !blocks.every(isCertificate))
    throw new Fault(`${named} contains no certificate, or an invalid one; expected ${expected}`);
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
  let key: string;
  let isOwnKey: boolean;
  try {
    key = readFile(keyFile);
    isOwnKey = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    const says = `${name} holds no private key that can be read${codeOf(error)}; expected one in PEM form, not encrypted`;
    throw new Fault(says, [keyPath]);
  }
  if (!isOwnKey) throw new Fault(`${name} holds the key of another certificate`, [keyPath]);
  return { cert, key: new Secret(key) };
}

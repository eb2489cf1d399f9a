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
  readonly "upstream.privateKey": Secret | null;
  readonly redis: {
    readonly password: Secret | null;
    readonly sentinelPassword: Secret | null;
    readonly pair: CertificatePair | null;
  };
  /** The tokens by app id. */
  readonly apps: ReadonlyMap<string, Secret>;
  readonly "server.tls": CertificatePair | null;
  readonly "admin.tls": CertificatePair | null;
  readonly adminToken: Secret | null;
  /** Certificate authorities as PEM; `null`: Node's own. */
  readonly upstreamCa: string | null;
  readonly redisCa: string | null;
  /** The files that the settings name. */
  readonly files: readonly string[];
}

export interface SecretSources {
  /** Sections with mistakes are missing. */
  readonly settings: Partial<Settings>;
  /** The secrets that environment variables hold, by the name of the variable. */
  readonly given: ReadonlyMap<string, string>;
  /** Reads a file as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
}

const LINE = {
  pattern: /^[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u,
  expected: "one line of text without blanks around it",
};
/** What the text of each kind of secret looks like. */
const KINDS = {
  key: LINE,
  password: LINE,
  /** A bearer token in a header (RFC 6750, section 2.1). A shorter one could be guessed. */
  token: {
    pattern: /^(?=.{16})[A-Za-z0-9._~+/-]+=*$/,
    expected: "one line of at least 16 letters, digits and -._~+/",
  },
};

/**
 * Reads all of them.
 * @param previous replaces a value that cannot be read
 */
export function readSecrets(
  sources: SecretSources,
  previous?: SecretValues,
): { readonly values: SecretValues; readonly mistakes: readonly Mistake[] } {
  const reader = new Reader(sources);
  const listed = sources.settings.apps?.listed ?? [];
  const keep = <T>(read: T | null, before: T | null = null): T | null => read ?? before;
  const privateKey = reader.secret(["upstream", "privateKeyFile"], "key", "UPSTREAM_PRIVATE_KEY");
  const adminToken = reader.secret(["admin", "tokenFile"], "token", "ADMIN_TOKEN");
  const password = reader.secret(["redis", "passwordFile"], "password", "REDIS_PASSWORD");
  const sentinelFile = ["redis", "sentinel", "passwordFile"];
  const sentinelPassword = reader.secret(sentinelFile, "password", "REDIS_SENTINEL_PASSWORD");
  // Connections keep the authorities that they began with, so these are read only once.
  const { upstreamCa, redisCa } = previous ?? {
    upstreamCa: reader.certificates(["upstream", "caFile"]),
    redisCa: reader.certificates(["redis", "caFile"]),
  };
  const values: SecretValues = {
    "upstream.privateKey": keep(privateKey, previous?.["upstream.privateKey"]),
    redis: {
      password: keep(password, previous?.redis.password),
      sentinelPassword: keep(sentinelPassword, previous?.redis.sentinelPassword),
      pair: keep(reader.pair(["redis"]), previous?.redis.pair),
    },
    apps: new Map(
      listed.flatMap(({ id }, at) => {
        const token = reader.secret(["apps", "listed", at, "tokenFile"], "token") ?? previous?.apps.get(id);
        return token === undefined ? [] : [[id, token] as const];
      }),
    ),
    "server.tls": keep(reader.pair(["server", "tls"]), previous?.["server.tls"]),
    "admin.tls": keep(reader.pair(["admin", "tls"]), previous?.["admin.tls"]),
    adminToken: keep(adminToken, previous?.adminToken),
    upstreamCa,
    redisCa,
    files: reader.files,
  };
  return { values, mistakes: reader.mistakes };
}

/** Reads what a setting names. The result is `null` if the setting names nothing, or after a mistake. */
class Reader {
  readonly mistakes: Mistake[] = [];
  readonly files: string[] = [];
  readonly #sources: SecretSources;

  constructor(sources: SecretSources) {
    this.#sources = sources;
  }

  /** @param variable the environment variable that can hold the secret itself */
  secret(path: SettingPath, kind: keyof typeof KINDS, variable = ""): Secret | null {
    const file = this.#fileAt(path);
    const given = this.#sources.given.get(variable);
    if (given === undefined) return file === "" ? null : this.#secretIn(path, file, kind);
    if (file !== "") return this.#mistake(path, `${variable} is set, too; expected exactly one of the two`);
    const { pattern, expected } = KINDS[kind];
    if (pattern.test(given)) return new Secret(given);
    const says = `environment variable ${variable}: found ${SECRET_TEXT}; expected ${expected}`;
    return this.#mistake(undefined, says);
  }

  /**
   * Drops one newline at the end of the file, because editors and `echo` add it. If the file cannot be read, the message shows
   * the path only if it clearly is a path, because it may be the secret itself.
   */
  #secretIn(path: SettingPath, file: string, kind: keyof typeof KINDS): Secret | null {
    const { pattern, expected } = KINDS[kind];
    const shown = JSON.stringify(file);
    // It starts like a path, and has no character that is common in secrets (base64) and rare in paths.
    const isPlainlyPath = /^\.{0,2}\/[^+=\p{Cc}]+$/u.test(file);
    const content = this.#textOf(
      path,
      file,
      `a file that holds the ${kind}`,
      isPlainlyPath ? shown : "the file",
    );
    const secret = content?.replace(/\r?\n$/, "");
    if (secret === undefined) return null;
    if (pattern.test(secret)) return new Secret(secret);
    if (secret === "") return this.#mistake(path, `${shown} is empty; expected it to hold the ${kind}`);
    return this.#mistake(path, `${shown} does not hold a ${kind}; expected ${expected}`);
  }

  /** Reads certificates as PEM. Refuses a file without any, because TLS itself would then trust no server. */
  certificates(path: SettingPath, what = "certificates"): string | null {
    const file = this.#fileAt(path);
    if (file === "") return null;
    const pem = this.#textOf(path, file, `a file with ${what} in PEM form`);
    if (pem === undefined) return null;
    const blocks = pem.match(/-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs) ?? [];
    const begun = pem.split("-----BEGIN CERTIFICATE-----").length - 1;
    if (blocks.length > 0 && begun === blocks.length && blocks.every(isCertificate)) return pem;
    const says = `${JSON.stringify(file)} contains no certificate, or an invalid one; expected the path of a file with ${what} in PEM form`;
    return this.#mistake(path, says);
  }

  /** @param section has the settings `certFile` and `keyFile` */
  pair(section: readonly string[]): CertificatePair | null {
    const [certPath, keyPath] = [
      [...section, "certFile"],
      [...section, "keyFile"],
    ] as const;
    const keyFile = this.#fileAt(keyPath);
    const isCertGiven = this.#fileAt(certPath) !== "";
    if (isCertGiven !== (keyFile !== "")) {
      const says = "is missing; expected both certFile and keyFile, or neither";
      return this.#mistake(isCertGiven ? keyPath : certPath, says);
    }
    const cert = this.certificates(certPath, "a certificate");
    if (cert === null) return null;
    const name = JSON.stringify(keyFile);
    try {
      const key = this.#sources.readFile(keyFile);
      if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
        return { cert, key: new Secret(key) };
      return this.#mistake(keyPath, `${name} holds the key of another certificate`);
    } catch (error) {
      const says = `${name} holds no private key that can be read${codeOf(error)}; expected one in PEM form, not encrypted`;
      return this.#mistake(keyPath, says);
    }
  }

  /** @returns the path of a file that a setting holds; empty if there is none */
  #fileAt(path: SettingPath): string {
    const file = valueAt(this.#sources.settings, path);
    if (typeof file !== "string" || file === "") return "";
    this.files.push(file);
    return file;
  }

  #textOf(
    path: SettingPath,
    file: string,
    expected: string,
    shown = JSON.stringify(file),
  ): string | undefined {
    try {
      return this.#sources.readFile(file);
    } catch (error) {
      const says = `${shown} cannot be read${codeOf(error)}; expected the path of ${expected}`;
      this.#mistake(path, says);
      return undefined;
    }
  }

  /** @param path of the wrong setting; absent if `says` names it */
  #mistake(path: SettingPath | undefined, says: string): null {
    this.mistakes.push({ paths: path === undefined ? [] : [path], says });
    return null;
  }
}

function isCertificate(block: string): boolean {
  try {
    return new X509Certificate(block).raw.length > 0;
  } catch {
    return false;
  }
}

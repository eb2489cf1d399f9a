/**
 * Reads the secrets and certificates that the settings name: secrets from files or environment variables, certificates and
 * private keys from files in PEM form.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";

import type { Environment } from "../env.ts";
import { LINE } from "../settings/shapes.ts";
import { SETTINGS, type Settings } from "../settings.ts";
import { formatPath, type Mistake, type SettingPath, valueAt } from "../sources.ts";
import { codeOf } from "../yaml-file.ts";
import { Secret, SECRET_TEXT } from "./secret.ts";

/** A certificate with its chain, and its private key, both as PEM. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: Secret;
}

/** What each setting names, by its path, such as `redis.passwordFile`. The token of an app: `apps.ID`. */
export type SecretValues = ReadonlyMap<string, Secret>;

export interface SecretSources {
  /** Sections with mistakes are missing. */
  readonly settings: Partial<Settings>;
  readonly env: Environment;
  /** Reads a file as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
}

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

/** @returns all values that can be read, and what is wrong with the others */
export function readSecrets(sources: SecretSources): Pick<Reader, "values" | "mistakes"> {
  const reader = new Reader(sources);
  for (const { path, holds, secretEnv } of SETTINGS) {
    if (holds !== undefined) reader.secret(path, holds, secretEnv);
    if (path.at(-1) === "caFile") reader.authorities(path);
    if (path.at(-1) === "certFile") reader.pair(path.slice(0, -1));
  }
  for (const [at, { id }] of (sources.settings.apps?.listed ?? []).entries())
    reader.secret(["apps", "listed", at, "tokenFile"], "token", "", `apps.${id}`);
  return reader;
}

/** Reads what a setting names. There is no value if the setting names nothing, or after a mistake. */
class Reader {
  readonly values = new Map<string, Secret>();
  readonly mistakes: Mistake[] = [];
  readonly #sources: SecretSources;

  constructor(sources: SecretSources) {
    this.#sources = sources;
  }

  /** @param variable the environment variable that can hold the secret itself */
  secret(path: SettingPath, kind: keyof typeof KINDS, variable = "", name = formatPath(path)): void {
    const { pattern, expected } = KINDS[kind];
    const given = this.#sources.env[variable] || undefined;
    if (given !== undefined && this.#fileAt(path) !== "")
      return this.#mistake(path, `${variable} is set, too; expected exactly one of the two`);
    if (given !== undefined && !pattern.test(given)) {
      const says = `environment variable ${variable}: found ${SECRET_TEXT}; expected ${expected}`;
      return void this.mistakes.push({ paths: [], says });
    }
    const secret = given ?? this.#secretIn(path, kind);
    if (secret !== undefined) this.values.set(name, new Secret(secret));
  }

  /**
   * Drops one newline at the end of the file, because editors and `echo` add it. If the file cannot be read, the message shows
   * the path only if it clearly is a path, because it may be the secret itself.
   */
  #secretIn(path: SettingPath, kind: keyof typeof KINDS): string | undefined {
    const { pattern, expected } = KINDS[kind];
    const withoutNewline = (text: string): string => text.replace(/\r?\n$/, "");
    const faultIn = (text: string): string | undefined => {
      const secret = withoutNewline(text);
      if (secret === "") return `is empty; expected it to hold the ${kind}`;
      return pattern.test(secret) ? undefined : `does not hold a ${kind}; expected ${expected}`;
    };
    // It starts like a path, and has no character that is common in secrets (base64) and rare in paths.
    const isPlainlyPath = /^\.{0,2}\/[^+=\p{Cc}]+$/u.test(this.#fileAt(path));
    const text = this.#read(path, `file that holds the ${kind}`, faultIn, isPlainlyPath);
    return text === undefined ? undefined : withoutNewline(text);
  }

  /** Certificate authorities. */
  authorities(path: SettingPath): void {
    const pem = this.#certificatesIn(path, "certificates");
    if (pem !== undefined) this.values.set(formatPath(path), new Secret(pem));
  }

  /** @param section has the settings `certFile` and `keyFile` */
  pair(section: readonly string[]): void {
    const certPath = [...section, "certFile"];
    const keyPath = [...section, "keyFile"];
    const isCertGiven = this.#fileAt(certPath) !== "";
    const keyFile = this.#fileAt(keyPath);
    if (isCertGiven !== (keyFile !== "")) {
      const says = "is missing; expected both certFile and keyFile, or neither";
      return this.#mistake(isCertGiven ? keyPath : certPath, says);
    }
    const cert = this.#certificatesIn(certPath, "a certificate");
    if (cert === undefined) return;
    const name = JSON.stringify(keyFile);
    try {
      const key = this.#sources.readFile(keyFile);
      if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
        return this.#mistake(keyPath, `${name} holds the key of another certificate`);
      this.values.set(formatPath(certPath), new Secret(cert)).set(formatPath(keyPath), new Secret(key));
    } catch (error) {
      const says = `${name} holds no private key that can be read${codeOf(error)}; expected one in PEM form, not encrypted`;
      this.#mistake(keyPath, says);
    }
  }

  #certificatesIn(path: SettingPath, what: string): string | undefined {
    const expected = `file with ${what} in PEM form`;
    const fault = `contains no certificate, or an invalid one; expected the path of a ${expected}`;
    return this.#read(path, expected, (pem) => (hasCertificates(pem) ? undefined : fault));
  }

  /** @returns the path of a file that a setting holds; empty if there is none */
  #fileAt(path: SettingPath): string {
    const file = valueAt(this.#sources.settings, path);
    return typeof file === "string" ? file : "";
  }

  /**
   * @param faultIn returns what is wrong with a text
   * @param mayShow whether the message about a file that cannot be read may show the path
   * @returns the text of the file that a setting names; `undefined` if it names none, or after a mistake
   */
  #read(
    path: SettingPath,
    expected: string,
    faultIn: (text: string) => string | undefined,
    mayShow = true,
  ): string | undefined {
    const file = this.#fileAt(path);
    if (file === "") return undefined;
    try {
      const text = this.#sources.readFile(file);
      const fault = faultIn(text);
      if (fault === undefined) return text;
      this.#mistake(path, `${JSON.stringify(file)} ${fault}`);
    } catch (error) {
      const shown = mayShow ? JSON.stringify(file) : "the file";
      this.#mistake(path, `${shown} cannot be read${codeOf(error)}; expected the path of a ${expected}`);
    }
    return undefined;
  }

  #mistake(path: SettingPath, says: string): void {
    this.mistakes.push({ paths: [path], says });
  }
}

const BEGIN = "-----BEGIN CERTIFICATE-----";

/** Whether a text has certificates, all of them valid. Without any, TLS itself would trust no server. */
function hasCertificates(pem: string): boolean {
  const [, ...blocks] = pem.split(BEGIN);
  try {
    return blocks.length > 0 && blocks.every((block) => new X509Certificate(BEGIN + block).raw.length > 0);
  } catch {
    return false;
  }
}

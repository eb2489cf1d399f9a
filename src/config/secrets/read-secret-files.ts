/**
 * Reads the secrets and certificates that the settings name: secrets from files or environment variables, certificates and
 * private keys from files in PEM form.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";

import { attempt } from "../../process/attempt.ts";
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

const BEGIN = "-----BEGIN CERTIFICATE-----";

const canParse = (parse: () => object): boolean => attempt(parse) !== undefined;

/** Checks every certificate, because TLS itself ignores those that it cannot read. */
function areCertificates(pem: string): boolean {
  const [, ...blocks] = pem.split(BEGIN);
  return blocks.length > 0 && blocks.every((block) => canParse(() => new X509Certificate(BEGIN + block)));
}

const isLine = (text: string): boolean => LINE.pattern.test(text);
/** A bearer token in a header (RFC 6750, section 2.1). A shorter one could be guessed. */
const isToken = (text: string): boolean => /^(?=.{16})[A-Za-z0-9._~+/-]+=*$/.test(text);
const isPrivateKey = (pem: string): boolean => canParse(() => createPrivateKey(pem));

/** What a file must contain. */
const KINDS = {
  key: { isValid: isLine, expected: `the key: ${LINE.expected}` },
  password: { isValid: isLine, expected: `the password: ${LINE.expected}` },
  token: { isValid: isToken, expected: "the token: one line of at least 16 letters, digits and -._~+/" },
  certificates: { isValid: areCertificates, expected: "certificates in PEM form" },
  privateKey: { isValid: isPrivateKey, expected: "a private key in PEM form, not encrypted" },
};

/** @returns all values that can be read, and what is wrong with the others */
export function readSecrets({ settings, env, readFile }: SecretSources): {
  readonly values: SecretValues;
  readonly mistakes: readonly Mistake[];
} {
  const values = new Map<string, Secret>();
  const mistakes: Mistake[] = [];
  const fileAt = (path: SettingPath): string => {
    const file = valueAt(settings, path);
    return typeof file === "string" ? file : "";
  };
  const wrong = (path: SettingPath, says: string): void => void mistakes.push({ path, says });

  /**
   * Reads what a setting names, without the newline that editors add at the end. There is no value if it names nothing, or after a
   * mistake. No message shows the path, because people write the secret itself in its place.
   * @param variable the environment variable that can hold the secret itself
   */
  function read(path: SettingPath, kind: keyof typeof KINDS, variable = "", name = formatPath(path)): void {
    const { isValid, expected } = KINDS[kind];
    const file = fileAt(path);
    let text = env[variable] || undefined;
    if (file === "" && text === undefined) return;
    if (file !== "" && text !== undefined)
      return wrong(path, `${variable} is set, too; expected exactly one of the two`);
    try {
      text ??= readFile(file).replace(/\r?\n$/, "");
    } catch (error) {
      const says = `the file cannot be read${codeOf(error)}; expected the path of a file with ${expected}`;
      return wrong(path, says);
    }
    if (isValid(text)) values.set(name, new Secret(text));
    else if (file !== "") wrong(path, `the file has other content; expected ${expected}`);
    else
      mistakes.push({
        says: `environment variable ${variable}: found ${SECRET_TEXT}; expected ${expected}`,
      });
  }

  /** Reads a certificate and its key: both, or neither. @param section has the settings `certFile` and `keyFile` */
  function readPair(section: readonly string[]): void {
    const cert = [...section, "certFile"];
    const key = [...section, "keyFile"];
    read(cert, "certificates");
    read(key, "privateKey");
    const [pem, keyPem] = [cert, key].map((path) => values.get(formatPath(path))?.reveal());
    const missing = [cert, key].filter((path) => fileAt(path) === "");
    if (missing.length === 1)
      wrong(missing[0] ?? cert, "is missing; expected both certFile and keyFile, or neither");
    else if (pem !== undefined && keyPem !== undefined) {
      if (new X509Certificate(pem).checkPrivateKey(createPrivateKey(keyPem))) return;
      wrong(key, "the file holds the key of another certificate");
    }
    for (const path of [cert, key]) values.delete(formatPath(path));
  }

  for (const { path, holds, secretEnv } of SETTINGS) {
    if (holds !== undefined) read(path, holds, secretEnv);
    if (path.at(-1) === "caFile") read(path, "certificates");
    if (path.at(-1) === "certFile") readPair(path.slice(0, -1));
  }
  for (const [at, { id }] of (settings.apps?.listed ?? []).entries())
    read(["apps", "listed", at, "tokenFile"], "token", "", `apps.${id}`);
  return { values, mistakes };
}

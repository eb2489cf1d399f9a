/**
 * Resolves the private key, tokens, passwords and certificates, from the settings or from the files that they name.
 */
import { type CertificatePair, readAuthorities, readPair } from "./certificates.ts";
import type { SettingFault } from "./check.ts";
import type { ReadableSettings } from "./schema.ts";
import { Secret } from "./secret.ts";
import { ONE_LINE_PATTERN, TOKEN_PATTERN } from "./text-shapes.ts";
import { formatPath, type SettingPath, type SettingSources, valueAt } from "./sources.ts";
import { codeOf } from "./yaml-file.ts";

/** The secrets and certificates that the settings name. */
export interface ResolvedSecrets {
  readonly privateKey: Secret;
  readonly token: Secret | null;
  readonly redisPassword: Secret | null;
  readonly sentinelPassword: Secret | null;
  /** The tokens by app id. */
  readonly appTokens: ReadonlyMap<string, Secret>;
  /** As PEM; `null`: Node's own certificate authorities. */
  readonly authorities: { readonly upstream: string | null; readonly redis: string | null };
  /** The gateway's own certificates; `null`: it has none for this purpose. */
  readonly pairs: {
    readonly server: CertificatePair | null;
    readonly admin: CertificatePair | null;
    readonly redis: CertificatePair | null;
  };
}

type ReadFile = (path: string) => string;

/**
 * Reads the secrets and the certificates.
 * @param mayBeMissing `false` if a missing secret may be in a settings file that could not be read
 * @returns the secrets and one line for each problem; no secrets if there is any problem here or in the settings
 */
export function resolveSecrets(
  settings: ReadableSettings,
  faults: readonly SettingFault[],
  sources: SettingSources,
  readFile: ReadFile,
  mayBeMissing: boolean,
): { readonly secrets?: ResolvedSecrets; readonly problems: readonly string[] } {
  const reader = createReader(settings, { faults, sources, readFile, mayBeMissing });
  const { choose, authorities, pair, problems } = reader;
  const privateKey = choose(PRIVATE_KEY);
  const chosen = {
    token: choose(ADMIN_TOKEN),
    redisPassword: choose(REDIS_PASSWORD),
    sentinelPassword: choose(SENTINEL_PASSWORD),
    appTokens: new Map<string, Secret>(),
    authorities: { upstream: authorities("upstream", "caFile"), redis: authorities("redis", "caFile") },
    pairs: { server: pair("server", "tls"), admin: pair("admin", "tls"), redis: pair("redis") },
  };
  for (const [index, app] of (settings.apps?.listed ?? []).entries()) {
    const token = choose({ ...APP_TOKEN, filePath: ["apps", "listed", index, "tokenFile"] });
    if (token) chosen.appTokens.set(app.id, token);
  }
  if (problems.length > 0 || !privateKey || !areKnown(chosen)) return { problems };
  return { secrets: { ...chosen, privateKey }, problems };
}

interface ReaderOptions {
  readonly faults: readonly SettingFault[];
  readonly sources: SettingSources;
  readonly readFile: ReadFile;
  readonly mayBeMissing: boolean;
}

/** Reads secrets and certificates, and collects their problems. */
function createReader(
  settings: ReadableSettings,
  { faults, sources, readFile, mayBeMissing }: ReaderOptions,
) {
  const problems: string[] = [];
  const fileAt = (path: SettingPath): string => {
    const file = valueAt(settings, path);
    return typeof file === "string" ? file : "";
  };
  const at = (path: SettingPath): string => `${sources.nameOf(path)}: ${formatPath(path)}`;

  /** @returns the secret; `null` if there is none; `undefined` if it has a problem, which is added to the list */
  function choose(kind: SecretKind): Secret | null | undefined {
    const { path, filePath, missing } = kind;
    const value = valueAt(settings, path);
    const file = fileAt(filePath);
    // The check has already reported mistakes in these settings.
    const reported = new Set([path.slice(0, 1), path, filePath].map(formatPath));
    if (faults.some((fault) => reported.has(formatPath(fault.path)))) return undefined;
    if (value instanceof Secret && file) {
      problems.push(`${at(path)}, ${at(filePath)}: both are set; expected exactly one of the two`);
      return undefined;
    }
    if (value instanceof Secret) return value;
    if (file) {
      const read = readSecretFile(file, kind, readFile);
      if (read instanceof Secret) return read;
      problems.push(`${at(filePath)}: ${read}`);
      return undefined;
    }
    if (missing === undefined) return null;
    if (mayBeMissing) problems.push(missing);
    return undefined;
  }

  function authorities(...path: string[]): string | null {
    const file = fileAt(path);
    if (!file) return null;
    const read = readAuthorities(file, readFile);
    if ("pem" in read) return read.pem;
    problems.push(`${at(path)}: ${read.fault}; expected the path of a file with certificates in PEM form`);
    return null;
  }

  function pair(...path: string[]): CertificatePair | null {
    const [certFile, keyFile] = [fileAt([...path, "certFile"]), fileAt([...path, "keyFile"])];
    if (!certFile && !keyFile) return null;
    if (!certFile || !keyFile) {
      const missing = [...path, certFile ? "keyFile" : "certFile"];
      problems.push(`${at(missing)}: is missing; expected both certFile and keyFile, or neither`);
      return null;
    }
    const read = readPair(certFile, keyFile, readFile);
    if ("cert" in read) return read;
    problems.push(`${at([...path, read.of])}: ${read.fault}`);
    return null;
  }

  return { choose, authorities, pair, problems };
}

/** Whether no secret has a problem, which `undefined` means. */
function areKnown<T extends object>(
  secrets: T,
): secrets is { [Name in keyof T]: Exclude<T[Name], undefined> } {
  return Object.values(secrets).every((secret) => secret !== undefined);
}

/** A secret that one setting contains, or a file that another setting names. */
interface SecretKind {
  readonly path: SettingPath;
  readonly filePath: SettingPath;
  /** The name of the secret in messages. */
  readonly what: string;
  readonly pattern: RegExp;
  /** Describes the expected content of a file. */
  readonly expected: string;
  /** Why the gateway does not start without it; absent for an optional secret. */
  readonly missing?: string;
}

const PRIVATE_KEY: SecretKind = {
  path: ["upstream", "privateKey"],
  filePath: ["upstream", "privateKeyFile"],
  what: "key",
  pattern: ONE_LINE_PATTERN,
  expected: "one line of text without blanks around it",
  missing:
    "upstream.privateKey is missing: set UPSTREAM_PRIVATE_KEY to the key, or " +
    "UPSTREAM_PRIVATE_KEY_FILE to the path of a file that holds it",
};

const ADMIN_TOKEN: SecretKind = {
  path: ["admin", "token"],
  filePath: ["admin", "tokenFile"],
  what: "token",
  pattern: TOKEN_PATTERN,
  expected: "one line of at least 16 letters, digits and -._~+/",
};

/** Tokens of apps are in files only. */
const APP_TOKEN: SecretKind = { ...ADMIN_TOKEN, path: ["apps"] };

const PASSWORD_FILE = {
  what: "password",
  pattern: ONE_LINE_PATTERN,
  expected: "one line of text without blanks around it",
};

const REDIS_PASSWORD: SecretKind = {
  ...PASSWORD_FILE,
  path: ["redis", "password"],
  filePath: ["redis", "passwordFile"],
};

const SENTINEL_PASSWORD: SecretKind = {
  ...PASSWORD_FILE,
  path: ["redis", "sentinel", "password"],
  filePath: ["redis", "sentinel", "passwordFile"],
};

/** The settings that are secrets. URLs that contain a password are not in this list. */
export const SECRET_PATHS: readonly SettingPath[] = [
  PRIVATE_KEY.path,
  ADMIN_TOKEN.path,
  REDIS_PASSWORD.path,
  SENTINEL_PASSWORD.path,
];

/** @returns the private key, or a text that says why the file contains none */
export function readPrivateKeyFile(path: string, readFile: ReadFile): Secret | string {
  return readSecretFile(path, PRIVATE_KEY, readFile);
}

/**
 * Reads a file with a secret. Drops one newline at the end of the file, because editors and `echo` add it. If the file
 * cannot be read, the message shows the path only if it clearly is a path, because it may be the secret itself.
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

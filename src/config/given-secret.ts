import type { ReadableSettings } from "./cross-check.ts";
import { Secret } from "./secret.ts";
import type { SettingFault } from "./setting-check.ts";
import { formatPath, type SettingPath } from "./setting-path.ts";
import { ONE_LINE_PATTERN, TOKEN_PATTERN } from "./setting-shapes.ts";
import type { SettingSources } from "./setting-sources.ts";

/** A secret that is given as it is, or as the path of a file that holds it. */
interface SecretSetting {
  readonly path: SettingPath;
  readonly filePath: SettingPath;
  readonly read: (settings: ReadableSettings) => {
    readonly value: string | null | undefined;
    readonly file: string | null | undefined;
  };
  /** What messages call it. */
  readonly what: string;
  readonly pattern: RegExp;
  /** What a file that does not hold it should hold instead. */
  readonly expected: string;
  /** Why there is no start without it; absent where there is. */
  readonly missing?: string;
}

export const PRIVATE_KEY: SecretSetting = {
  path: ["upstream", "privateKey"],
  filePath: ["upstream", "privateKeyFile"],
  read: ({ upstream }) => ({ value: upstream?.privateKey, file: upstream?.privateKeyFile }),
  what: "key",
  pattern: ONE_LINE_PATTERN,
  expected: "one line of text without blanks around it",
  missing:
    "upstream.privateKey is missing: set UPSTREAM_PRIVATE_KEY to the key, or " +
    "UPSTREAM_PRIVATE_KEY_FILE to the path of a file that holds it",
};

export const ADMIN_TOKEN: SecretSetting = {
  path: ["admin", "token"],
  filePath: ["admin", "tokenFile"],
  read: ({ admin }) => ({ value: admin?.token, file: admin?.tokenFile }),
  what: "token",
  pattern: TOKEN_PATTERN,
  expected: "one line of letters, digits and -._~+/",
};

/** The secret, none, or the line that says what is wrong. */
export type GivenSecret =
  | { readonly secret: Secret | null }
  | { readonly problem: string; /** Neither setting is given. */ readonly missing?: true };

/**
 * Takes a secret from the one of its two settings that is given.
 * @returns `undefined` where the settings themselves could not be read
 */
export function chooseSecret(
  setting: SecretSetting,
  settings: ReadableSettings,
  faults: readonly SettingFault[],
  sources: SettingSources,
  readFile: (path: string) => string,
): GivenSecret | undefined {
  const { path, filePath, missing } = setting;
  // Where these are wrong, a fault says so already.
  const said = new Set([path.slice(0, 1), path, filePath].map(formatPath));
  if (faults.some((fault) => said.has(formatPath(fault.path)))) return undefined;
  const { value, file } = setting.read(settings);
  const at = (path: SettingPath): string => `${sources.nameOf(path)}: ${formatPath(path)}`;
  if (value && file) {
    return { problem: `${at(path)}, ${at(filePath)}: both are set; expected exactly one of the two` };
  }
  if (value) return { secret: new Secret(value) };
  if (file) {
    const read = readSecretFile(file, setting, readFile);
    return read instanceof Secret ? { secret: read } : { problem: `${at(filePath)}: ${read}` };
  }
  return missing === undefined ? { secret: null } : { missing: true, problem: missing };
}

/** @returns the private key, or in words why the file holds none */
export function readPrivateKeyFile(path: string, readFile: (path: string) => string): Secret | string {
  return readSecretFile(path, PRIVATE_KEY, readFile);
}

/**
 * One newline at the file's end is dropped: editors and `echo` leave it there. The path of a file that cannot be
 * read is in messages only where it can be nothing else: the secret itself may have been given in its place.
 */
function readSecretFile(
  path: string,
  { what, pattern, expected }: SecretSetting,
  readFile: (path: string) => string,
): Secret | string {
  let content: string;
  try {
    content = readFile(path);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    const shown = isPlainlyPath(path) ? JSON.stringify(path) : "the file";
    return `${shown} cannot be read${code}; expected the path of a file that holds the ${what}`;
  }
  const secret = content.replace(/\r?\n$/, "");
  if (secret === "") return `${JSON.stringify(path)} is empty; expected it to hold the ${what}`;
  if (pattern.test(secret)) return new Secret(secret);
  return `${JSON.stringify(path)} holds more than a ${what}; expected ${expected}`;
}

/** Begins as only paths do, and has nothing in it that is frequent in secrets (base64) and rare in paths. */
function isPlainlyPath(text: string): boolean {
  return /^\.{0,2}\/[^+=\p{Cc}]+$/u.test(text);
}

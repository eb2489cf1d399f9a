import type { ReadableSettings } from "./cross-check.ts";
import { Secret } from "./secret.ts";
import type { SettingFault } from "./setting-check.ts";
import { formatPath, type SettingPath } from "./setting-path.ts";
import { ONE_LINE_PATTERN } from "./setting-shapes.ts";
import type { SettingSources } from "./setting-sources.ts";

/** The key, or the line that says why there is none. */
export type PrivateKey =
  | { readonly key: Secret }
  | { readonly problem: string; /** Neither setting is given. */ readonly missing?: true };

export const KEY_PATH: SettingPath = ["upstream", "privateKey"];
const FILE_PATH: SettingPath = ["upstream", "privateKeyFile"];

/** Where these are wrong, a fault says so already. */
const SAID_BY_FAULT = new Set(["upstream", formatPath(KEY_PATH), formatPath(FILE_PATH)]);

/**
 * Takes the private key from the one of its two settings that is given.
 * @returns `undefined` where the settings themselves could not be read
 */
export function choosePrivateKey(
  { upstream }: ReadableSettings,
  faults: readonly SettingFault[],
  sources: SettingSources,
  readFile: (path: string) => string,
): PrivateKey | undefined {
  if (faults.some((fault) => SAID_BY_FAULT.has(formatPath(fault.path)))) return undefined;
  const { privateKey, privateKeyFile } = upstream ?? {};
  const at = (path: SettingPath): string => `${sources.nameOf(path)}: ${formatPath(path)}`;
  if (privateKey && privateKeyFile) {
    return { problem: `${at(KEY_PATH)}, ${at(FILE_PATH)}: both are set; expected exactly one of the two` };
  }
  if (privateKey) return { key: new Secret(privateKey) };
  if (privateKeyFile) {
    const read = readPrivateKeyFile(privateKeyFile, readFile);
    return read instanceof Secret ? { key: read } : { problem: `${at(FILE_PATH)}: ${read}` };
  }
  return {
    missing: true,
    problem:
      `${formatPath(KEY_PATH)} is missing: set UPSTREAM_PRIVATE_KEY to the key, or ` +
      "UPSTREAM_PRIVATE_KEY_FILE to the path of a file that holds it",
  };
}

/**
 * @returns the key, or in words why the file holds none
 *
 * One newline at the file's end is dropped: editors and `echo` leave it there. The path is kept out
 * of messages, because the key itself may have been given in its place.
 */
export function readPrivateKeyFile(path: string, readFile: (path: string) => string): Secret | string {
  let content: string;
  try {
    content = readFile(path);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    return `the file cannot be read${code}; expected the path of a file that holds the key`;
  }
  const key = content.replace(/\r?\n$/, "");
  if (key === "") return "the file is empty; expected it to hold the key";
  if (ONE_LINE_PATTERN.test(key)) return new Secret(key);
  return "the file holds more than a key; expected one line of text without blanks around it";
}

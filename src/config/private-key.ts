/**
 * The private key in use, and the file that contains it.
 */
import type { Clock } from "../process/clock.ts";
import { type FollowedFiles, followFiles } from "./followed-files.ts";
import type { Secret } from "./secret.ts";
import { readPrivateKeyFile } from "./secrets.ts";

/** The private key in use, which may change, and all earlier ones. */
export interface PrivateKeys {
  /** @returns the key that signs requests now */
  readonly current: () => string;
  /** @returns the number of keys so far. Messages may show it. */
  readonly version: () => number;
  /** Every key so far and every other secret, for masking. A new key is added at the end. */
  readonly known: readonly string[];
  /** @returns whether the key differs from the current one */
  readonly replace: (key: Secret) => boolean;
  /** Adds a secret to mask, for example a password or a token that was read while the process runs. */
  readonly mask: (secret: string) => void;
}

/** @param others further secrets to mask */
export function createPrivateKeys(first: Secret, others: readonly string[] = []): PrivateKeys {
  const known: string[] = [...new Set([first.reveal(), ...others])];
  const mask = (secret: string): void => {
    if (!known.includes(secret)) known.push(secret);
  };
  let current = first.reveal();
  let version = 1;
  return {
    current: () => current,
    version: () => version,
    known,
    replace(key) {
      const next = key.reveal();
      if (next === current) return false;
      current = next;
      version++;
      mask(next);
      return true;
    },
    mask,
  };
}

type Log = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export interface KeyFileOptions {
  readonly path: string;
  readonly keys: PrivateKeys;
  readonly clock: Clock;
  /** Reads a file as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
  readonly info: Log;
  readonly warn: Log;
}

/** Follows the file with the private key. A file without a valid key changes nothing. */
export function followKeyFile(options: KeyFileOptions): FollowedFiles {
  const { path, keys, clock, readFile, info, warn } = options;
  /** The last fault of the file. The same fault is logged only once. */
  let fault: string | undefined;
  return followFiles({
    paths: [path],
    clock,
    check() {
      const read = readPrivateKeyFile(path, readFile);
      if (typeof read === "string") {
        if (read !== fault)
          warn("The private key stays as it was: its file does not contain a valid key.", { fault: read });
        fault = read;
        return;
      }
      fault = undefined;
      if (keys.replace(read)) info("The private key has changed.", { version: keys.version() });
    },
  });
}

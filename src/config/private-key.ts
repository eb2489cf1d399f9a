/**
 * The private key in use, and the file that it comes from.
 *
 * A mounted secret changes when a link of its directory points elsewhere. So we watch the directory and read the file
 * through its path. Watching is not reliable (network file systems report nothing), so we also read the file every
 * few seconds.
 */
import { watch } from "node:fs";
import { dirname } from "node:path";

import type { Clock } from "../process/clock.ts";
import type { Secret } from "./secret.ts";
import { readPrivateKeyFile } from "./secrets.ts";

/** The private key in use, which may change, and all earlier ones. */
export interface PrivateKeys {
  /** Signs requests now. */
  readonly current: () => string;
  /** Counts the keys so far. Messages may show it. */
  readonly version: () => number;
  /** Every key so far and every other secret, for masking. A new key is added at the end. */
  readonly known: readonly string[];
  /** @returns whether it is another key than before */
  readonly replace: (key: Secret) => boolean;
}

/** @param others further secrets to mask */
export function createPrivateKeys(first: Secret, others: readonly string[] = []): PrivateKeys {
  const known: string[] = [...new Set([first.reveal(), ...others])];
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
      if (!known.includes(next)) known.push(next);
      return true;
    },
  };
}

type Say = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export interface KeyFileOptions {
  readonly path: string;
  readonly keys: PrivateKeys;
  readonly clock: Clock;
  /** Reads a file as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
  readonly info: Say;
  readonly warn: Say;
}

export interface KeyFile {
  /** Reads the file now. A file that holds no key changes nothing. */
  readonly check: () => void;
  readonly close: () => void;
}

const POLL_MS = 5_000;
/** A program that rewrites the file in place is done by then. */
const SETTLE_MS = 100;

export function followKeyFile(options: KeyFileOptions): KeyFile {
  const { path, keys, clock, readFile, info, warn } = options;
  /** What is wrong with the file. It is logged once. */
  let fault: string | undefined;
  let cancelCheck = (): void => undefined;
  let cancelPoll = clock.after(POLL_MS, poll);

  function check(): void {
    const read = readPrivateKeyFile(path, readFile);
    if (typeof read === "string") {
      if (read !== fault)
        warn("The private key stays as it was: what is in its file is none.", { fault: read });
      fault = read;
      return;
    }
    fault = undefined;
    if (keys.replace(read)) info("The private key has changed.", { version: keys.version() });
  }

  function poll(): void {
    cancelPoll = clock.after(POLL_MS, poll);
    check();
  }

  const unwatch = watchDirectory(dirname(path), () => {
    cancelCheck();
    cancelCheck = clock.after(SETTLE_MS, check);
  });

  return {
    check,
    close() {
      unwatch();
      cancelCheck();
      cancelPoll();
    },
  };
}

/** Reports nothing if the directory cannot be watched. */
function watchDirectory(directory: string, onChange: () => void): () => void {
  try {
    const watcher = watch(directory, { persistent: false }, onChange);
    // Somebody may remove the directory.
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    return () => undefined;
  }
}

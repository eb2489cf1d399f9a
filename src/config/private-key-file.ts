/**
 * Follows the file of the private key, as it changes while the process runs.
 *
 * A mounted secret changes by a link of its directory that is pointed elsewhere, so it is the directory that
 * is watched, and the file read through its path. Watching promises nothing (on network file systems nothing
 * is heard at all), so the file is read now and then in any case.
 */
import { watch } from "node:fs";
import { dirname } from "node:path";

import type { Clock } from "../process/clock.ts";
import { readPrivateKeyFile } from "./given-secret.ts";
import type { PrivateKeys } from "./private-keys.ts";

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
  /** Reads it now. A file that holds no key changes nothing. */
  readonly check: () => void;
  readonly close: () => void;
}

const POLL_MS = 5_000;
/** Whoever does not change a file at once, but writes it anew, is done by then. */
const SETTLE_MS = 100;

export function followKeyFile(options: KeyFileOptions): KeyFile {
  const { path, keys, clock, readFile, info, warn } = options;
  /** What is wrong with the file, said once. */
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

/** Where it cannot be watched, nothing is heard. */
function watchDirectory(directory: string, onChange: () => void): () => void {
  try {
    const watcher = watch(directory, { persistent: false }, onChange);
    // The directory itself may be removed.
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    return () => undefined;
  }
}

/**
 * Files that may change while the process runs: keys, passwords and certificates.
 *
 * A mounted secret changes when a link in its directory gets a new target. So we watch the directory and read the file
 * through its path. Watching is not reliable, because network file systems report nothing. So we also read the files every
 * few seconds.
 */
import { watch } from "node:fs";
import { dirname } from "node:path";

import type { Clock } from "../process/clock.ts";

export interface FollowedFilesOptions {
  readonly paths: readonly string[];
  readonly clock: Clock;
  /** Called when the files may have changed. Reads them and applies the changes. */
  readonly check: () => void;
}

export interface FollowedFiles {
  readonly check: () => void;
  readonly close: () => void;
}

const POLL_MS = 5_000;
/** The time in which a program finishes rewriting a file, or both files of a pair. */
const SETTLE_MS = 100;

export function followFiles({ paths, clock, check }: FollowedFilesOptions): FollowedFiles {
  let cancelCheck = (): void => undefined;
  let cancelPoll = clock.after(POLL_MS, poll);

  function poll(): void {
    cancelPoll = clock.after(POLL_MS, poll);
    check();
  }

  const directories = [...new Set(paths.map((path) => dirname(path)))];
  const unwatch = directories.map((directory) =>
    watchDirectory(directory, () => {
      cancelCheck();
      cancelCheck = clock.after(SETTLE_MS, check);
    }),
  );

  return {
    check,
    close() {
      for (const stop of unwatch) stop();
      cancelCheck();
      cancelPoll();
    },
  };
}

/** Reports nothing if the directory cannot be watched. */
function watchDirectory(directory: string, onChange: () => void): () => void {
  try {
    const watcher = watch(directory, { persistent: false }, onChange);
    // The directory may be removed.
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    return () => undefined;
  }
}

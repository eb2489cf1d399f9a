/** Reads a file every second to notice changes. Watching directories is not reliable: network file systems send no events. */
import type { Clock } from "../process/clock.ts";

const POLL_MS = 1_000;

export interface WatchOptions {
  /** `undefined`: there is nothing to watch. */
  readonly path: string | undefined;
  /** Reads a file as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
  readonly clock: Clock;
  readonly onChange: () => void;
}

export interface FileWatch {
  readonly close: () => void;
}

/** Calls back when the text of the file has changed. A file that cannot be read is not a change. */
export function watchFile({ path, readFile, clock, onChange }: WatchOptions): FileWatch {
  if (path === undefined) return { close: () => undefined };
  let seen = textOf(path, readFile);
  let cancel = clock.after(POLL_MS, poll);

  function poll(): void {
    cancel = clock.after(POLL_MS, poll);
    const text = textOf(path ?? "", readFile) ?? seen;
    if (text === seen) return;
    seen = text;
    onChange();
  }

  return { close: () => cancel() };
}

function textOf(path: string, readFile: WatchOptions["readFile"]): string | undefined {
  try {
    return readFile(path);
  } catch {
    return undefined;
  }
}

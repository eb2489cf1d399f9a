/** Reads a file every second to notice changes. Watching directories is not reliable: network file systems send no events. */
import { type Clock, every } from "../process/clock.ts";

/** How often files are read. */
export const POLL_MS = 1_000;

/**
 * Calls back when the text of the file has changed. A file that cannot be read is not a change.
 * @param readFile reads a file as UTF-8 text, or throws
 * @returns a function that ends it
 */
export function watchFile(
  path: string,
  readFile: (path: string) => string,
  clock: Clock,
  onChange: () => void,
): () => void {
  const read = (): string | undefined => {
    try {
      return readFile(path);
    } catch {
      return undefined;
    }
  };
  let seen = read();
  return every(clock, POLL_MS, () => {
    const text = read() ?? seen;
    if (text === seen) return;
    seen = text;
    onChange();
  });
}

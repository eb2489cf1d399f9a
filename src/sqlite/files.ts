/**
 * Creates, opens and writes files in the data directory. Only their owner can read them.
 */
import { closeSync, constants, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";

/** Opens a file, or creates it so that only its owner can read it. */
export function openPrivately(file: string): number {
  return openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
}

/**
 * Writes all bytes, in as many steps as necessary.
 * @throws if the disk is full
 */
export function writeFully(descriptor: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length;)
    done += writeSync(descriptor, bytes, done, bytes.length - done, position + done);
}

/**
 * Creates a directory that only its owner can read, with its parents. Node's option `recursive` would never return where the
 * system denies that an existing parent exists, as in /proc.
 */
export function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) === "EEXIST") return;
    const parent = dirname(directory);
    if (codeOf(error) !== "ENOENT" || parent === directory) throw error;
    makeDirectory(parent);
    mkdirSync(directory, { mode: 0o700 });
  }
}

/**
 * Creates an empty file that only its owner can read, if it does not exist. SQLite itself would create a file that every user
 * can read. Its other files get the same mode.
 */
export function createPrivately(file: string): void {
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/**
 * Creates, checks and opens files in the data directory. Only their owner can read them, and a link that somebody else put
 * there is never followed.
 */
import { closeSync, constants, existsSync, lstatSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";

/** The data directory cannot be used. The message names the path and the remedy. */
export class UnusableData extends Error {
  override readonly name = "UnusableData";
}

/**
 * Opens a file, or creates it so that only its owner can read it.
 * @throws if the path is a link
 */
export function openPrivately(file: string): number {
  return openSync(file, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
}

/**
 * Creates the data directory, if it does not exist, so that only its owner can read it.
 * @throws {UnusableData} if every user can write to it, because they could replace the files in it
 */
export function openDirectory(directory: string): void {
  makeDirectory(directory);
  if ((statSync(directory).mode & constants.S_IWOTH) === 0) return;
  throw new UnusableData(
    `every user can write to ${directory}. Run "chmod o-w ${directory}", or name a directory below it, which the ` +
      "gateway creates",
  );
}

/** Node's option `recursive` would never return where the system denies that an existing parent exists, as in /proc. */
function makeDirectory(directory: string): void {
  if (existsSync(directory)) return;
  makeDirectory(dirname(directory));
  mkdirSync(directory, { mode: 0o700 });
}

/**
 * Creates an empty file that only its owner can read, if it does not exist. SQLite itself would create a file that every user
 * can read, and would follow a link. Its other files get the same mode.
 */
export function createPrivately(file: string): void {
  closeSync(openPrivately(file));
}

/** @throws {UnusableData} if there is a link, a directory or anything else that is not a file of its own */
export function refuseLink(file: string): void {
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (found === undefined || (found.isFile() && found.nlink === 1)) return;
  const what = found.isDirectory() ? "a directory" : "a link or a device";
  throw new UnusableData(`${file} is ${what}, not a file. Move it away`);
}

import { constants, openSync, writeSync } from "node:fs";

/** Opens a file that only its owner can read, or creates it. */
export function openPrivately(file: string): number {
  return openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
}

/** @throws when the disk is full */
export function writeFully(descriptor: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length;)
    done += writeSync(descriptor, bytes, done, bytes.length - done, position + done);
}

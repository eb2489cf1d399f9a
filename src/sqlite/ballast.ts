import { closeSync, fstatSync, fsyncSync, ftruncateSync, truncateSync } from "node:fs";
import { join } from "node:path";

import { isDiskFull } from "./faults.ts";
import { openPrivately, writeFully } from "./files.ts";

/**
 * A file of bytes without a meaning. On a full disk, its space is given to the ledger. It has the first of its sizes
 * that fits on the disk. Nothing here throws: a disk without space has no ballast.
 */
export interface Ballast {
  /** 0 while it is released. */
  readonly bytes: () => number;
  /** Gives the space back to the disk. */
  readonly release: () => void;
  /** Takes the space again, if the disk has it. @returns whether it did */
  readonly refill: () => boolean;
  /** Does so at most once a minute. */
  readonly refillNowAndThen: () => void;
  readonly close: () => void;
}

const FILE_NAME = "ledger-reserve";
const SIZES = [4 * 1_024 * 1_024, 256 * 1_024];
const REFILL_EVERY_MS = 60_000;

/** @param now epoch milliseconds */
export function openBallast(directory: string, now: () => number): Ballast {
  let descriptor: number | undefined;
  let bytes = 0;
  let refilledAt = now();

  function release(): void {
    bytes = 0;
    if (descriptor !== undefined) ftruncateSync(descriptor, 0);
  }

  function refill(): boolean {
    refilledAt = now();
    for (const size of bytes > 0 ? [] : SIZES) {
      try {
        descriptor ??= openPrivately(join(directory, FILE_NAME));
        fillUpTo(descriptor, size);
        bytes = size;
        break;
      } catch {
        release();
      }
    }
    return bytes > 0;
  }

  refill();
  return {
    bytes: () => bytes,
    release,
    refill,
    refillNowAndThen() {
      const sinceMs = now() - refilledAt;
      // A clock that was set back must not postpone it.
      if (sinceMs < 0 || sinceMs >= REFILL_EVERY_MS) refill();
    },
    close() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

/** Does the work. If the disk is full, releases the ballast that an earlier process left, and does it again. */
export function withBallast<T>(directory: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    try {
      truncateSync(join(directory, FILE_NAME));
    } catch {
      // There is none.
      throw error;
    }
    return work();
  }
}

/** @throws when the disk is full */
function fillUpTo(descriptor: number, size: number): void {
  const { size: begun } = fstatSync(descriptor);
  if (begun < size) writeFully(descriptor, Buffer.alloc(size - begun, "-"), begun);
  // Some file systems only find out here that they have no space.
  fsyncSync(descriptor);
}

import { closeSync, fstatSync, fsyncSync, ftruncateSync, truncateSync } from "node:fs";
import { join } from "node:path";

import { isDiskFull } from "./faults.ts";
import { openPrivately, writeFully } from "./files.ts";

/**
 * A file that only reserves disk space. When the disk is full, the ledger gets this space. The file has the first of its
 * sizes that fits on the disk, or is empty. No function throws because the disk is full.
 */
export interface Ballast {
  /** The reserved bytes; 0 after a release. */
  readonly bytes: () => number;
  /** Frees the space. */
  readonly release: () => void;
  /** Reserves the space again, if the disk has it. @returns whether any space is reserved */
  readonly refill: () => boolean;
  /** Calls `refill` at most once a minute. */
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
      // If the clock was set back, the refill must not wait longer.
      if (sinceMs < 0 || sinceMs >= REFILL_EVERY_MS) refill();
    },
    close() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

/** Runs `work`. If the disk is full, frees the ballast of an earlier process, and runs `work` again. */
export function withBallast<T>(directory: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    try {
      truncateSync(join(directory, FILE_NAME));
    } catch {
      // There is no ballast.
      throw error;
    }
    return work();
  }
}

/** @throws if the disk is full */
function fillUpTo(descriptor: number, size: number): void {
  const { size: present } = fstatSync(descriptor);
  if (present < size) writeFully(descriptor, Buffer.alloc(size - present, "-"), present);
  // Some file systems report only here that they have no space.
  fsyncSync(descriptor);
}

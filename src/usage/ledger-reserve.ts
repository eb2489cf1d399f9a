/**
 * A small file of fixed size beside the database. It makes sure that a full disk does not make the gateway forget what
 * it sent. It has two parts:
 *
 * - The note, one block of text: how many calls could not be written to the ledger, and when. It is overwritten in
 *   place, which needs no free space, before the call departs.
 * - The ballast: bytes without a meaning. They are given back to the disk when the ledger needs the space.
 */
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";

import { ORIGINS } from "../types.ts";
import type { LedgerGap } from "./ledger.ts";
import { mergeGaps } from "./ledger-gaps.ts";
import type { UnfailingOptions } from "./trouble.ts";

export interface LedgerReserveOptions extends UnfailingOptions {
  readonly directory: string;
  /** Gaps older than this, in milliseconds, are dropped. */
  readonly retentionMs: number;
  /** Steps that free space on a full disk, tried in order until the note has its block. */
  readonly freeSpace: readonly (() => void)[];
}

export interface LedgerReserve {
  /** Calls that earlier processes sent but could not write. */
  readonly past: readonly LedgerGap[];
  /** The size of the ballast, in bytes; 0 while it is released. */
  readonly ballastBytes: () => number;
  /** Records the calls that this process sent but could not write. Replaces what it recorded before. Never throws. */
  readonly note: (gaps: readonly LedgerGap[]) => void;
  /** Gives the ballast back to the disk. */
  readonly release: () => void;
  /** Takes the ballast again, if the disk has space for it. @returns whether it did */
  readonly refill: () => boolean;
  /** Does so at most once a minute. */
  readonly refillNowAndThen: () => void;
  readonly close: () => void;
}

export const RESERVE_FILE = "ledger-reserve";
/** One page of the file system: a killed process leaves the note as it was before or after a write. */
const NOTE_BYTES = 4_096;
/** The ballast has the first of these sizes that fits on the disk. */
const BALLAST_SIZES = [4 * 1_024 * 1_024, 256 * 1_024];
const REFILL_EVERY_MS = 60_000;
/** This many gaps fit into the note, with those of this process. */
const MOST_PAST_GAPS = 20;

/** Opens the file, or creates it. Never throws: without the file, unwritten calls are remembered in memory only. */
export function openLedgerReserve(options: LedgerReserveOptions): LedgerReserve {
  const { directory, now, warn, freeSpace } = options;
  const file = join(directory, RESERVE_FILE);
  const past = readPast(file, options);
  let descriptor: number | undefined;
  let written: string | undefined;
  let ballastBytes = 0;
  let refilledAt = Number.NEGATIVE_INFINITY;

  function write(gaps: readonly LedgerGap[]): void {
    const text = JSON.stringify({ gaps });
    if (text === written) return;
    descriptor ??= openPrivately(file);
    writeFully(descriptor, Buffer.from(`${text.padEnd(NOTE_BYTES - 1)}\n`), 0);
    written = text;
  }

  /** Frees space step by step where the disk is full. */
  function create(): void {
    for (const free of [() => undefined, ...freeSpace]) {
      try {
        free();
        return write(past);
      } catch {
        // The next step may free enough.
      }
    }
    note([]);
  }

  const report = once((error: unknown) =>
    warn("The ledger's reserve cannot be used: on a full disk, calls are counted in memory only.", {
      file,
      reason: error instanceof Error ? error.message : String(error),
    }),
  );

  function note(gaps: readonly LedgerGap[]): void {
    try {
      write([...past, ...gaps]);
    } catch (error) {
      report(error);
    }
  }

  function release(): void {
    ballastBytes = 0;
    if (descriptor !== undefined) ftruncateSync(descriptor, NOTE_BYTES);
  }

  function refill(): boolean {
    if (ballastBytes > 0) return true;
    if (descriptor === undefined) return false;
    refilledAt = now();
    for (const bytes of BALLAST_SIZES) {
      try {
        fillUpTo(descriptor, NOTE_BYTES + bytes);
        ballastBytes = bytes;
        return true;
      } catch {
        release();
      }
    }
    return false;
  }

  function refillNowAndThen(): void {
    const sinceMs = now() - refilledAt;
    // A clock that was set back must not postpone it.
    if (sinceMs < 0 || sinceMs >= REFILL_EVERY_MS) refill();
  }

  create();
  refill();
  return {
    past,
    ballastBytes: () => ballastBytes,
    note,
    release,
    refill,
    refillNowAndThen,
    close() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

/** What earlier processes noted, without what is too old. */
function readPast(file: string, { now, retentionMs, warn }: LedgerReserveOptions): LedgerGap[] {
  const [from, to] = [now() - retentionMs, now()];
  try {
    return mergeGaps(
      gapsIn(readNote(file))
        // A clock that was ahead must not hold the calls back for longer.
        .map((gap) => ({ ...gap, from: Math.min(gap.from, to), to: Math.min(gap.to, to) }))
        .filter((gap) => gap.to > from),
      MOST_PAST_GAPS,
    );
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    warn("The ledger's reserve cannot be read: calls may be missing from the ledger.", { file, reason });
    // How many is not known. The reports must not claim that nothing is missing.
    return ORIGINS.map((origin) => ({ origin, from, to, sends: 0 }));
  }
}

/** @returns an empty text if there is no file */
function readNote(file: string): string {
  try {
    return readFileSync(file).toString("utf8", 0, NOTE_BYTES).trim();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  }
}

/** @throws when the text is not a note */
function gapsIn(text: string): LedgerGap[] {
  if (text === "") return [];
  const note: unknown = JSON.parse(text);
  const gaps: unknown = Object(note).gaps;
  if (!Array.isArray(gaps) || !gaps.every(isGap)) throw new Error("it is not a note of gaps");
  return gaps;
}

function isGap(value: unknown): value is LedgerGap {
  const { origin, from, to, sends } = Object(value);
  return ORIGINS.includes(origin) && [from, to, sends].every(Number.isFinite);
}

function openPrivately(file: string): number {
  return openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
}

/** @throws when the disk is full */
function writeFully(descriptor: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length;)
    done += writeSync(descriptor, bytes, done, bytes.length - done, position + done);
}

/** @throws when the disk is full */
function fillUpTo(descriptor: number, size: number): void {
  const { size: begun } = fstatSync(descriptor);
  if (begun < size) writeFully(descriptor, Buffer.alloc(size - begun, "-"), begun);
  // Some file systems only find out here that they have no space.
  fsyncSync(descriptor);
}

function once(work: (error: unknown) => void): (error: unknown) => void {
  let isDone = false;
  return (error) => {
    if (!isDone) work(error);
    isDone = true;
  };
}

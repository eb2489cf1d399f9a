/**
 * A small file beside the database that records how many calls could not be written to the ledger, and when. It is
 * overwritten in place, which needs no free space on the disk.
 */
import { closeSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { ORIGINS } from "../types.ts";
import type { LedgerGap } from "./ledger.ts";
import { mergeGaps } from "./ledger-gaps.ts";
import { openPrivately, writeFully } from "../sqlite/files.ts";
import type { UnfailingOptions } from "./unfailing-ledger.ts";

export interface GapNoteOptions extends UnfailingOptions {
  readonly directory: string;
  /** Gaps older than this, in milliseconds, are dropped. */
  readonly retentionMs: number;
  /** Steps that free space on a full disk, tried in order until the file can be created. */
  readonly freeSpace: readonly (() => void)[];
}

export interface GapNote {
  /** Calls that earlier processes sent but could not write. */
  readonly past: readonly LedgerGap[];
  /** Records the calls that this process sent but could not write. Replaces what it recorded before. Never throws. */
  readonly write: (gaps: readonly LedgerGap[]) => void;
  readonly close: () => void;
}

const FILE_NAME = "ledger-gaps";
/** One page of the file system. A process that is killed during a write leaves either the old text or the new one. */
const FILE_BYTES = 4_096;
/** This many fit into the file, together with the gaps of this process. */
const MOST_PAST_GAPS = 20;

/** Opens the file, or creates it. Never throws: without the file, unwritten calls are counted in memory only. */
export function openGapNote(options: GapNoteOptions): GapNote {
  const { directory, warn, freeSpace } = options;
  const file = join(directory, FILE_NAME);
  const past = readPast(file, options);
  let descriptor: number | undefined;
  let written: string | undefined;
  let hasFailed = false;

  function tryToWrite(gaps: readonly LedgerGap[]): void {
    const text = JSON.stringify({ gaps: [...past, ...gaps] });
    if (text === written) return;
    descriptor ??= openPrivately(file);
    writeFully(descriptor, Buffer.from(`${text.padEnd(FILE_BYTES - 1)}\n`), 0);
    written = text;
  }

  function write(gaps: readonly LedgerGap[]): void {
    try {
      tryToWrite(gaps);
    } catch (error) {
      if (!hasFailed)
        warn(
          "The note of unwritten calls cannot be written: on a full disk they are counted in memory only.",
          {
            file,
            reason: reasonOf(error),
          },
        );
      hasFailed = true;
    }
  }

  function create(): void {
    for (const free of freeSpace) {
      try {
        return tryToWrite([]);
      } catch {
        free();
      }
    }
    write([]);
  }

  create();
  return {
    past,
    write,
    close() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

/** The gaps that earlier processes recorded, without those that are too old. */
function readPast(file: string, { now, retentionMs, warn }: GapNoteOptions): LedgerGap[] {
  const [from, to] = [now() - retentionMs, now()];
  try {
    return mergeGaps(
      gapsIn(readNote(file))
        // If the clock was ahead, the calls count as sent now. Otherwise they would count for too long.
        .map((gap) => ({ ...gap, from: Math.min(gap.from, to), to: Math.min(gap.to, to) }))
        .filter((gap) => gap.to > from),
      MOST_PAST_GAPS,
    );
  } catch (error) {
    warn("The note of unwritten calls cannot be read: calls may be missing from the ledger.", {
      file,
      reason: reasonOf(error),
    });
    // The number of missing calls is unknown. Reports must not claim that nothing is missing.
    return ORIGINS.map((origin) => ({ origin, from, to, sends: 0 }));
  }
}

/** @returns an empty text if there is no file */
function readNote(file: string): string {
  try {
    return readFileSync(file).toString("utf8", 0, FILE_BYTES).trim();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  }
}

/** @throws if the text is not a note */
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

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

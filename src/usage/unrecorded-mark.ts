/**
 * A small file beside the database that says in which time calls could not be recorded. It gets its space when the process
 * starts and is overwritten in place, so it can also be written when the disk is full.
 */
import { closeSync, fdatasyncSync, readFileSync } from "node:fs";
import { join } from "node:path";

import type { DatabaseSpace } from "../sqlite/database.ts";
import { openPrivately, refuseLink, UnusableData, writeFully } from "../sqlite/files.ts";
import type { LedgerBounds, Unrecorded } from "./ledger-line.ts";

export interface UnrecordedMarkOptions extends Pick<LedgerBounds, "retentionMs" | "clock"> {
  readonly directory: string;
  readonly space: DatabaseSpace;
}

export interface UnrecordedMark {
  /** By the present clock, like the instants of `OwnLedger.recent`. */
  readonly read: () => Unrecorded | undefined;
  /** A call that is permitted now will not be recorded. Never throws: an unwritten mark is kept in memory. */
  readonly extend: () => void;
  readonly close: () => void;
}

/** The content of the file: the time of the last call is there in both forms. */
interface Content extends Unrecorded {
  readonly boot: string;
  readonly up: number;
}

const FILE_NAME = "ledger-unrecorded";
/** One page of the file system. A process that is killed during a write leaves either the old text or the new one. */
const FILE_BYTES = 4_096;

/** @throws {UnusableData} if the file cannot be created */
export function openUnrecordedMark(options: UnrecordedMarkOptions): UnrecordedMark {
  const { directory, retentionMs, clock, space } = options;
  const file = join(directory, FILE_NAME);
  refuseLink(file);
  const { now, machine } = clock;
  let content: Content | undefined;
  let descriptor: number | undefined;

  function write(next: Content | undefined): void {
    descriptor ??= openPrivately(file);
    content = next;
    const text = next === undefined ? "" : JSON.stringify(next);
    writeFully(descriptor, Buffer.from(`${text.padEnd(FILE_BYTES - 1)}\n`), 0);
    fdatasyncSync(descriptor);
  }

  /** Writes the same text again, so that the file has its space. */
  function allocate(): void {
    descriptor ??= openPrivately(file);
    write(contentOf(readFileSync(file, "utf8"), options));
  }

  function read(): Unrecorded | undefined {
    if (content === undefined) return undefined;
    const { since, until, boot, up } = content;
    const ended = Math.min(now(), boot === machine.boot ? now() - machine.up() + up : until);
    return ended < now() - retentionMs ? undefined : { since: Math.min(since, ended), until: ended };
  }

  try {
    allocate();
  } catch {
    space.evict();
    try {
      allocate();
    } catch (error) {
      throw new UnusableData(`${file} cannot be written (${String(error)}). Free some space on the disk`);
    }
  }
  return {
    read,
    extend() {
      try {
        write({ since: read()?.since ?? now(), until: now(), boot: machine.boot, up: machine.up() });
      } catch {
        // The ledger has already reported that the disk does not work.
      }
    },
    close() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

/** If the text is not a mark, calls of any time may be missing. */
function contentOf(text: string, { retentionMs, clock }: UnrecordedMarkOptions): Content | undefined {
  if (text.trim() === "") return undefined;
  try {
    const { since, until, boot, up } = Object(JSON.parse(text));
    if ([since, until, up].every(Number.isFinite)) return { since, until, boot: String(boot), up };
  } catch {
    // It is not a mark.
  }
  return { since: clock.now() - retentionMs, until: clock.now(), boot: "", up: 0 };
}

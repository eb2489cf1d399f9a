/**
 * A small file beside the database that says in which time calls could not be recorded. It gets its space when the process
 * starts and is overwritten in place, so it can also be written when the disk is full.
 */
import { closeSync, fdatasyncSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

import { attempt } from "../process/attempt.ts";
import { openPrivately, refuseLink, UnusableData } from "../sqlite/files.ts";
import type { LedgerBounds, Unrecorded } from "./ledger-line.ts";

export interface UnrecordedMarkOptions extends Pick<LedgerBounds, "retentionMs" | "clock"> {
  readonly directory: string;
}

/** The content of the file: the time of the last call is there in both forms. */
interface Content extends Unrecorded {
  readonly boot: string;
  readonly up: number;
}

const FILE_NAME = "ledger-unrecorded";
/** One page of the file system. A process that is killed during a write leaves either the old text or the new one. */
const FILE_BYTES = 4_096;

/** @throws {UnusableData} if the file cannot be written */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function openUnrecordedMark(options: UnrecordedMarkOptions) {
  const { directory, retentionMs, clock } = options;
  const { now, machine } = clock;
  const file = join(directory, FILE_NAME);
  refuseLink(file);
  let content: Content | undefined;
  /** Absent after `close`. */
  let descriptor: number | undefined;

  function write(next: Content | undefined): void {
    content = next;
    if (descriptor === undefined) return;
    const text = next === undefined ? "" : JSON.stringify(next);
    const written = writeSync(descriptor, `${text.padEnd(FILE_BYTES - 1)}\n`, 0);
    if (written < FILE_BYTES) throw new Error("the disk is full");
    fdatasyncSync(descriptor);
  }

  /** The instants are on the current clock, like those of `OwnLedger.recent`. */
  function read(): Unrecorded | undefined {
    if (content === undefined) return undefined;
    const { since, until, boot, up } = content;
    const ended = Math.min(now(), boot === machine.boot ? now() - machine.up() + up : until);
    return ended < now() - retentionMs ? undefined : { since: Math.min(since, ended), until: ended };
  }

  try {
    descriptor = openPrivately(file);
    // Writes the same text again, so that the file has its space.
    write(contentOf(readFileSync(file, "utf8"), options));
  } catch (error) {
    throw new UnusableData(`${file} cannot be written (${String(error)}). Free some space on the disk`);
  }
  return {
    read,
    /** A call that is permitted now will not be recorded. Never throws: an unwritten mark is kept in memory. */
    extend(): void {
      const { since = now() } = read() ?? {};
      // If it fails, the ledger has already reported that the disk does not work.
      attempt(() => write({ since, until: now(), boot: machine.boot, up: machine.up() }));
    },
    close(): void {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

/** If the text is not a mark, calls of any time may be missing. */
function contentOf(text: string, { retentionMs, clock }: UnrecordedMarkOptions): Content | undefined {
  if (text.trim() === "") return undefined;
  const { since, until, boot, up } = Object(attempt(() => JSON.parse(text)));
  if ([since, until, up].every(Number.isFinite)) return { since, until, boot: String(boot), up };
  return { since: clock.now() - retentionMs, until: clock.now(), boot: "", up: 0 };
}

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

/** The content of the file: the time of the last call is there in both forms. */
interface Content extends Unrecorded {
  readonly boot: string;
  readonly up: number;
}

const FILE_NAME = "ledger-unrecorded";
/** One page of the file system. A process that is killed during a write leaves either the old text or the new one. */
const FILE_BYTES = 4_096;

export class UnrecordedMark {
  readonly #options: UnrecordedMarkOptions;
  readonly #file: string;
  #content: Content | undefined;
  #descriptor: number | undefined;

  /** @throws {UnusableData} if the file cannot be created */
  constructor(options: UnrecordedMarkOptions) {
    this.#options = options;
    this.#file = join(options.directory, FILE_NAME);
    refuseLink(this.#file);
    try {
      this.#allocate();
    } catch {
      options.space.evict();
      try {
        this.#allocate();
      } catch (error) {
        throw new UnusableData(
          `${this.#file} cannot be written (${String(error)}). Free some space on the disk`,
        );
      }
    }
  }

  /** Writes the same text again, so that the file has its space. */
  #allocate(): void {
    this.#descriptor ??= openPrivately(this.#file);
    this.#write(contentOf(readFileSync(this.#file, "utf8"), this.#options));
  }

  #write(content: Content | undefined): void {
    this.#descriptor ??= openPrivately(this.#file);
    this.#content = content;
    const text = content === undefined ? "" : JSON.stringify(content);
    writeFully(this.#descriptor, Buffer.from(`${text.padEnd(FILE_BYTES - 1)}\n`), 0);
    fdatasyncSync(this.#descriptor);
  }

  /** The instants are on the current clock, like those of `OwnLedger.recent`. */
  readonly read = (): Unrecorded | undefined => {
    const { retentionMs, clock } = this.#options;
    if (this.#content === undefined) return undefined;
    const { since, until, boot, up } = this.#content;
    const { now, machine } = clock;
    const ended = Math.min(now(), boot === machine.boot ? now() - machine.up() + up : until);
    return ended < now() - retentionMs ? undefined : { since: Math.min(since, ended), until: ended };
  };

  /** A call that is permitted now will not be recorded. Never throws: an unwritten mark is kept in memory. */
  extend(): void {
    const { now, machine } = this.#options.clock;
    try {
      this.#write({ since: this.read()?.since ?? now(), until: now(), boot: machine.boot, up: machine.up() });
    } catch {
      // The ledger has already reported that the disk does not work.
    }
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }
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

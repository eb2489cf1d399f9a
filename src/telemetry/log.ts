/**
 * The log on standard output: JSON lines, or lines for people on a terminal. It contains events, which `log.level`
 * selects, and the access log (access-log.ts).
 *
 * Two rules keep secrets out of the log. Records have known fields, such as canonical queries and problem codes, and never
 * contain a raw URL. And signatures and known secrets are redacted before a line is written.
 */
import { pino, type DestinationStream } from "pino";

import { memoize } from "../process/memoize.ts";

export type Logger = ReturnType<typeof createLogger>;

export interface LogOptions {
  readonly level: string;
  /** Receives each line at once. The default is standard output. */
  readonly destination?: DestinationStream;
  /** Texts that must never be written. The list may grow. */
  readonly secrets: readonly string[];
}

// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createLogger({ level, destination, secrets }: LogOptions) {
  const output = destination ?? standardOutput();
  const redact = createRedact(secrets);
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: {
      streamWrite(text: string): string {
        writeWaiting();
        return redact(text);
      },
    },
  };
  const log = pino(options, output);
  const isoTime = memoize((at: number) => new Date(at).toISOString(), 1);
  let waiting: object[] = [];
  function writeWaiting(): void {
    if (waiting.length === 0) return;
    const lines = waiting.map((fields) => `${JSON.stringify(fields)}\n`);
    waiting = [];
    output.write(redact(lines.join("")));
  }
  /**
   * Writes a line with the level info, whatever `log.level` is. It is for the access log: pino encodes each field by itself,
   * which takes three times as long. Lines wait for others, because encoding many at once takes a third of the time.
   */
  function line(fields: object): void {
    waiting.push({ level: "info", time: isoTime(Date.now()), ...fields });
    if (destination !== undefined || waiting.length >= MOST_LINES) writeWaiting();
    else if (waiting.length === 1) setTimeout(writeWaiting, WAIT_MS);
  }
  return Object.assign(log, {
    line,
    /** Calls back when all lines are written, also those of the access log. */
    writeAll(done: (error?: Error) => void): void {
      writeWaiting();
      log.flush(done);
    },
  });
}

/** This many lines of the access log are written at once. */
const MOST_LINES = 256;
/** Lines of the access log wait this long for others. A process that is killed loses them. */
const WAIT_MS = 50;
/** If the reader of the log is slow and so many bytes wait, further lines are lost. The gateway does not wait. */
const MOST_WAITING = 16 * 1024 * 1024;

/** On a terminal, lines are formatted for people. */
function standardOutput(): DestinationStream {
  const forPeople = { translateTime: "HH:MM:ss.l", singleLine: true, ignore: "pid,hostname" };
  if (process.stdout.isTTY) return pino.transport({ target: "pino-pretty", options: forPeople });
  // Without a least length, it would not wait for the last write when it is flushed.
  const options = { dest: process.stdout.fd, sync: false, minLength: 1, maxLength: MOST_WAITING };
  const output = pino.destination(options);
  // pino ignores that nothing reads the log any more. A process without a log must end.
  output.on("error", (error: Error) => {
    throw error;
  });
  // pino calls this at fatal errors and at the end of the process. Its own version waits for ever if nothing reads the pipe.
  return Object.assign(output, { flushSync: () => undefined });
}

const SIGNATURE = /(?<=hash|unique)(=|%3D)[^&\s"\\]*/gi;

/**
 * @param secrets texts that must never be written. The list may grow.
 * @returns a function that redacts signatures and the secrets, also where JSON or a URL escapes them
 */
export function createRedact(secrets: readonly string[]): (text: string) => string {
  const unwanted: string[] = [];
  let spelled = 0;
  return (text) => {
    for (; spelled < secrets.length; spelled++) unwanted.push(...spellingsOf(secrets[spelled] ?? ""));
    let clean = text.replaceAll(SIGNATURE, ":[redacted]");
    for (const secret of unwanted) clean = clean.replaceAll(secret, "[redacted]");
    return clean;
  };
}

/** @returns the text as it is and as it is escaped in a URL, each escaped for JSON */
function spellingsOf(secret: string): string[] {
  if (secret === "") return [];
  const form = new URLSearchParams([["", secret]]).toString().slice(1);
  const spellings = [secret, encodeURIComponent(secret), form];
  return [...new Set(spellings.map((spelling) => JSON.stringify(spelling).slice(1, -1)))];
}

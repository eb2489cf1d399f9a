/**
 * The log on standard output: JSON lines, or lines for people on a terminal. It contains events, which `log.level`
 * selects, and the access log (access-log.ts).
 *
 * Two rules keep secrets out of the log. Records have known fields, such as canonical queries and problem codes, and never
 * contain a raw URL. And signatures and known secrets are redacted before a line is written.
 */
import { pino, type DestinationStream, type Logger } from "pino";

export type { Logger } from "pino";

export interface LogOptions {
  readonly level: string;
  /** Receives each line at once. The default is standard output. */
  readonly destination?: DestinationStream;
  /** Texts that must never be written. The list may grow. */
  readonly secrets: readonly string[];
}

export function createLogger({ level, destination = standardOutput(), secrets }: LogOptions): Logger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { streamWrite: createRedact(secrets) },
  };
  return pino(options, destination);
}

/** Lines wait this long for others, so that many are written together. A process that is killed loses them. */
const FLUSH_EVERY_MS = 50;
/** This many waiting characters are written at once. */
const WRITE_FROM = 16_000;
/** If the reader of the log is slow and so many characters wait, further lines are lost. The gateway does not wait. */
const MOST_WAITING = 16 * 1024 * 1024;

/** On a terminal, lines are formatted for people. */
function standardOutput(): DestinationStream {
  if (!process.stdout.isTTY) {
    const output = pino.destination({
      dest: process.stdout.fd,
      sync: false,
      periodicFlush: FLUSH_EVERY_MS,
      minLength: WRITE_FROM,
      maxLength: MOST_WAITING,
    });
    // pino ignores that nothing reads the log any more. A process without a log must end.
    output.on("error", (error: Error) => {
      throw error;
    });
    return output;
  }
  const options = { translateTime: "HH:MM:ss.l", singleLine: true, ignore: "pid,hostname" };
  return pino.transport({ target: "pino-pretty", options });
}

const SIGNATURE = /(hash|unique)(=|%3D)[^&\s"\\]*/gi;

/**
 * @param secrets texts that must never be written. The list may grow.
 * @returns a function that redacts signatures and the secrets, also where JSON or a URL escapes them
 */
export function createRedact(secrets: readonly string[]): (text: string) => string {
  const unwanted: string[] = [];
  let spelled = 0;
  return (text) => {
    for (; spelled < secrets.length; spelled++) unwanted.push(...spellingsOf(secrets[spelled] ?? ""));
    let clean = text.replaceAll(SIGNATURE, "$1:[redacted]");
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

/** The section `log` of the settings. */
export interface LogSettings {
  readonly level: "trace" | "debug" | "info" | "warn" | "error" | "silent";
  readonly access: "on" | "off" | "sampled" | "errors";
  readonly accessSample: number;
}

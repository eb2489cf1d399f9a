/**
 * The log: JSON lines on standard output, one per request and one per upstream call.
 *
 * Secrets are kept out by construction: what is logged are records of known fields, canonical texts
 * and problem codes; never a URL as it was received or sent, never a header. As a second net every
 * line is searched for what a signature looks like before it is written.
 */
import { pino, type Logger } from "pino";

export type { Logger } from "pino";

export interface LogOptions {
  readonly level: string;
  /** Where lines go; standard output where absent. */
  readonly destination?: { write(line: string): void };
  /** Texts that must never be written, whatever happens. The list may grow. */
  readonly secrets: readonly string[];
}

const SIGNATURE = /(hash|unique)(=|%3D)[^&\s"\\]*/gi;

export function createLogger({ level, destination, secrets }: LogOptions): Logger {
  const sink = destination ?? process.stdout;
  const unwanted: string[] = [];
  let spelled = 0;
  const write = (line: string): void => {
    for (; spelled < secrets.length; spelled++) unwanted.push(...spellingsOf(secrets[spelled] ?? ""));
    let clean = line.replaceAll(SIGNATURE, "$1:[redacted]");
    for (const text of unwanted) clean = clean.replaceAll(text, "[redacted]");
    sink.write(clean);
  };
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return pino(options, { write });
}

/** The ways a text can stand in a line: as it is and as part of a URL, each as JSON escapes it. */
function spellingsOf(secret: string): string[] {
  if (secret === "") return [];
  const form = new URLSearchParams([["", secret]]).toString().slice(1);
  const spellings = [secret, encodeURIComponent(secret), form];
  return [...new Set(spellings.map((spelling) => JSON.stringify(spelling).slice(1, -1)))];
}

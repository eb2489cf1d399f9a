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
  /** Texts that must never be written, whatever happens. */
  readonly secrets: readonly string[];
}

const SIGNATURE = /\b(hash|unique)(=|%3D)[^&\s"\\]+/gi;

export function createLogger({ level, destination, secrets }: LogOptions): Logger {
  const sink = destination ?? process.stdout;
  const write = (line: string): void => {
    let clean = line.replaceAll(SIGNATURE, "$1:[redacted]");
    for (const secret of secrets) clean = clean.replaceAll(secret, "[redacted]");
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

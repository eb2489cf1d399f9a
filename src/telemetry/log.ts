/**
 * The log on standard output: JSON lines, or on a terminal lines for people. There are events, which `log.level` selects,
 * and the access log (request-log.ts).
 *
 * Secrets stay out of the log for two reasons. The records have known fields, such as canonical queries and problem codes;
 * they never contain a raw URL. And before a line is written, signatures and known secrets are redacted.
 */
import { pino, type Logger } from "pino";

import { readableLine } from "./readable.ts";
import { createRedact } from "./redact.ts";

export type { Logger } from "pino";

export interface LogOptions {
  readonly level: string;
  /** Where the lines go. The default is standard output. */
  readonly destination?: { write(line: string): void; readonly isTTY?: boolean };
  /** Texts that must never be written. The list may grow. */
  readonly secrets: readonly string[];
}

export function createLogger({ level, destination = process.stdout, secrets }: LogOptions): Logger {
  const redact = createRedact(secrets);
  const isTerminal = destination.isTTY === true;
  const write = (line: string): void => {
    const clean = redact(line);
    destination.write(isTerminal ? readableLine(clean) : clean);
  };
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return pino(options, { write });
}

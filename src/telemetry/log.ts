/**
 * The log on standard output: JSON lines, or on a terminal lines for people. There are events, which `log.level` selects,
 * and the access log (request-log.ts).
 *
 * Secrets stay out of the log for two reasons. The records have known fields, such as canonical queries and problem codes;
 * they never contain a raw URL. And before a line is written, signatures and known secrets are redacted.
 */
import { pino, type Logger as PinoLogger } from "pino";

import type { RequestRecord } from "../types.ts";
import { type CallerFields, createLines, createRequestLine } from "./access-log.ts";
import { readableLine } from "./readable.ts";
import { createRedact } from "./redact.ts";

export interface Logger extends PinoLogger {
  /**
   * Logs a request, whatever the level is. The line of a cache hit may wait a moment, so that many are written together.
   */
  readonly request: (record: RequestRecord, caller: CallerFields) => void;
}

export interface LogOptions {
  readonly level: string;
  /** Where the lines go, one at a time and at once. The default is standard output. */
  readonly destination?: { write(line: string): void; readonly isTTY?: boolean };
  /** Texts that must never be written. The list may grow. */
  readonly secrets: readonly string[];
}

export function createLogger({ level, destination, secrets }: LogOptions): Logger {
  const sink = destination ?? process.stdout;
  const isTerminal = sink.isTTY === true;
  const redact = createRedact(secrets);
  const lines = createLines((text) => {
    const clean = redact(text);
    sink.write(isTerminal ? readable(clean) : clean);
  }, soon);
  if (destination === undefined) process.once("exit", lines.flush);

  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const log = pino(options, { write: lines.write });
  const lineOf = createRequestLine(Date.now);
  return Object.assign(log, {
    request(record: RequestRecord, caller: CallerFields) {
      const isSoonEnough = destination === undefined && record.outcome === "hit";
      (isSoonEnough ? lines.writeSoon : lines.write)(lineOf(record, caller));
    },
  });
}

function readable(lines: string): string {
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map(readableLine)
    .join("");
}

function soon(delayMs: number, callback: () => void): () => void {
  const timer = setTimeout(callback, delayMs);
  return () => clearTimeout(timer);
}

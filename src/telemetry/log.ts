/**
 * The log on standard output: JSON lines, or lines for people on a terminal. It contains events, which `log.level`
 * selects, and the access log (access-log.ts).
 *
 * Two rules keep secrets out of the log. Records have known fields, such as canonical queries and problem codes, and never
 * contain a raw URL. And signatures and known secrets are redacted before a line is written.
 */
import { pino, type Logger as PinoLogger } from "pino";

import type { RequestRecord } from "./events.ts";
import { type CallerFields, createLines, createRequestLine } from "./access-line.ts";

export interface Logger extends PinoLogger {
  /** Logs a request at any level. The line of a cache hit may wait a moment, so that many lines are written together. */
  readonly request: (record: RequestRecord, caller: CallerFields) => void;
}

export interface LogOptions {
  readonly level: string;
  /** Receives each line at once. The default is standard output. */
  readonly destination?: { write(line: string): unknown };
  /** Texts that must never be written. The list may grow. */
  readonly secrets: readonly string[];
}

export function createLogger({ level, destination, secrets }: LogOptions): Logger {
  const sink = destination ?? standardOutput();
  const redact = createRedact(secrets);
  const lines = createLines((text) => void sink.write(redact(text)), soon);
  if (destination === undefined) process.once("exit", lines.flush);
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const lineOf = createRequestLine(Date.now);
  return Object.assign(pino(options, { write: lines.write }), {
    request(record: RequestRecord, caller: CallerFields) {
      const mayWait = destination === undefined && record.outcome === "hit";
      (mayWait ? lines.writeSoon : lines.write)(lineOf(record, caller));
    },
  });
}

/** On a terminal, lines are formatted for people. */
function standardOutput(): { write(line: string): unknown } {
  if (!process.stdout.isTTY) return process.stdout;
  const options = { translateTime: "HH:MM:ss.l", singleLine: true, ignore: "pid,hostname" };
  return pino.transport({ target: "pino-pretty", options });
}

function soon(delayMs: number, callback: () => void): () => void {
  const timer = setTimeout(callback, delayMs);
  return () => clearTimeout(timer);
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

export interface LogControl {
  readonly current: () => LogSettings;
  /** Applies until the settings are reloaded or the process ends. */
  readonly change: (change: Partial<LogSettings>) => LogSettings;
}

export function createLogControl(log: Logger, initial: LogSettings): LogControl {
  let settings = initial;
  return {
    current: () => settings,
    change(change) {
      settings = { ...settings, ...change };
      log.level = settings.level;
      return settings;
    },
  };
}

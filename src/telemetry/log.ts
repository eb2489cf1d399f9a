/**
 * The log: JSON lines on standard output, one per request and one per upstream call.
 *
 * Secrets stay out of the log for two reasons. The records have known fields, such as canonical queries and problem codes;
 * they never contain a raw URL or a header. And before a line is written, signatures and known secrets are redacted.
 */
import { pino, type Logger as PinoLogger } from "pino";

import type { Observer, RequestRecord } from "../types.ts";
import { createLines, createRequestLine } from "./access-log.ts";
import type { Metrics } from "./metrics.ts";

export interface Logger extends PinoLogger {
  /** Logs a request. The line of a cache hit may wait a moment, so that many are written together. */
  readonly request: (record: RequestRecord) => void;
}

export interface LogOptions {
  readonly level: string;
  /** Where the lines go, one at a time and at once. The default is standard output. */
  readonly destination?: { write(line: string): void };
  /** Texts that must never be written. The list may grow. */
  readonly secrets: readonly string[];
}

const SIGNATURE = /(hash|unique)(=|%3D)[^&\s"\\]*/gi;

export function createLogger({ level, destination, secrets }: LogOptions): Logger {
  const sink = destination ?? process.stdout;
  const unwanted: string[] = [];
  let spelled = 0;
  const lines = createLines((text) => {
    for (; spelled < secrets.length; spelled++) unwanted.push(...spellingsOf(secrets[spelled] ?? ""));
    let clean = text.replaceAll(SIGNATURE, "$1:[redacted]");
    for (const secret of unwanted) clean = clean.replaceAll(secret, "[redacted]");
    sink.write(clean);
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
    request(record: RequestRecord) {
      if (!log.isLevelEnabled("info")) return;
      const isSoonEnough = destination === undefined && record.outcome === "hit";
      (isSoonEnough ? lines.writeSoon : lines.write)(lineOf(record));
    },
  });
}

function soon(delayMs: number, callback: () => void): () => void {
  const timer = setTimeout(callback, delayMs);
  return () => clearTimeout(timer);
}

/** @returns the text as it is and as it is escaped in a URL, each escaped for JSON */
function spellingsOf(secret: string): string[] {
  if (secret === "") return [];
  const form = new URLSearchParams([["", secret]]).toString().slice(1);
  const spellings = [secret, encodeURIComponent(secret), form];
  return [...new Set(spellings.map((spelling) => JSON.stringify(spelling).slice(1, -1)))];
}

/**
 * @param labelOf the metric label of an app: the log names every app, the metrics only some
 * @param accessSample of this many cache hits one is logged (setting `log.accessSample`); all of them are counted
 * @returns the observer of the stages: it writes to the log and counts in the metrics
 */
export function createObserver(
  log: Logger,
  metrics: Metrics,
  { labelOf, accessSample }: { labelOf: (app: string) => string; accessSample: () => number },
): Observer {
  let hits = 0;
  return {
    request(record) {
      metrics.request(record, labelOf(record.app));
      if (record.outcome === "hit" && hits++ % accessSample() !== 0) return;
      log.request(record);
    },
    upstreamCall(record) {
      metrics.upstreamCall(record);
      log.info(record, "upstream call");
    },
    refreshed: metrics.refreshed,
    warmed: metrics.warmed,
    info: (message, fields) => log.info(fields, message),
    warn: (message, fields) => log.warn(fields, message),
    error: (message, fields) => log.error(fields, message),
  };
}

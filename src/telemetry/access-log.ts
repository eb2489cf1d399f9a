/**
 * The access log: one line per request, in the form in which pino writes all other lines. It has a writer of its own
 * because pino and a write to the system would cost more than the rest of a cache hit.
 */
import type { RequestRecord } from "../types.ts";

/** What the log says of a caller, besides its app. */
export interface CallerFields {
  readonly client?: string | undefined;
  /** What the caller or a proxy claims. */
  readonly forwardedFor?: string | undefined;
  readonly traceparent?: string | undefined;
}

/** @returns what makes the line of a request, with its line end */
export function createRequestLine(
  now: () => number,
): (record: RequestRecord, caller: CallerFields) => string {
  let timeAt = Number.NaN;
  let time = "";
  return (record, { client, forwardedFor, traceparent }) => {
    const at = now();
    if (at !== timeAt) {
      timeAt = at;
      time = new Date(at).toISOString();
    }
    const { id, app, method, resource, query, status, outcome, tier, problem, durationMs, bytes, saved } =
      record;
    return (
      `{"level":"info","time":"${time}","id":${quoted(id)},"app":${quoted(app)},"method":${quoted(method)}` +
      `,"resource":"${resource}"${field("query", query)},"status":${status},"outcome":"${outcome}"` +
      `${field("tier", tier)}${field("problem", problem)},"durationMs":${rounded(durationMs)},"bytes":${bytes}` +
      `${field("saved", saved)}${field("client", client)}${field("forwardedFor", forwardedFor)}` +
      `${field("traceparent", record.traceparent ?? traceparent)},"msg":"request"}\n`
    );
  };
}

/** A duration with three decimals. */
export function rounded(durationMs: number): number {
  return Math.round(durationMs * 1_000) / 1_000;
}

function field(name: string, value: string | undefined): string {
  return value === undefined ? "" : `,"${name}":${quoted(value)}`;
}

/** Text that JSON shows as it is. */
const PLAIN = /^[ !#-[\]-~]*$/;

function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}

export interface Lines {
  /** Writes a line, and all lines before it. */
  readonly write: (line: string) => void;
  /** Writes a line a little later, together with others. */
  readonly writeSoon: (line: string) => void;
  /** Writes what is left. */
  readonly flush: () => void;
}

/** How long a line may wait for others. */
const SOON_MS = 50;
/** More characters than this do not wait. */
const MOST_WAITING = 65_536;

/** Calls back once. @returns what cancels that */
type After = (delayMs: number, callback: () => void) => () => void;

/** @param write writes one or more whole lines */
export function createLines(write: (lines: string) => void, after: After): Lines {
  let waiting = "";
  let cancel: (() => void) | undefined;

  function flush(): void {
    cancel?.();
    cancel = undefined;
    if (waiting === "") return;
    const lines = waiting;
    waiting = "";
    write(lines);
  }

  return {
    flush,
    write(line) {
      waiting += line;
      flush();
    },
    writeSoon(line) {
      waiting += line;
      if (waiting.length > MOST_WAITING) flush();
      else cancel ??= after(SOON_MS, flush);
    },
  };
}

/** A line of the ledger on its way out of the table: as one piece of JSON, which costs less than its columns. */
import type { LedgerLine } from "./ledger.ts";

/** @returns an expression for a line as JSON, with these as its instants */
export function lineWith(at: string, arrivedAt: string): string {
  return `json_object('id', id, 'origin', origin, 'at', ${at}, 'app', app, 'resource', resource,
    'cause', cause, 'query', query, 'limits', limits, 'completion', json(CASE WHEN status IS NOT NULL THEN json_object(
      'status', CASE WHEN status GLOB '[0-9]*' THEN CAST(status AS INTEGER) ELSE status END,
      'durationMs', duration_ms, 'arrivedAt', ${arrivedAt}) END))`;
}

/** @param json what `lineWith` makes of a line */
export function lineOf(json: unknown): LedgerLine {
  const line: Omit<LedgerLine, "completion"> & { completion: LedgerLine["completion"] | null } = JSON.parse(
    String(json),
  );
  return { ...line, completion: line.completion ?? undefined };
}

import type { LedgerEntry, LedgerLine, LedgerReader } from "../../src/usage/ledger-line.ts";

/** A send that anything may be different of. */
export function ledgerEntry(fields: Partial<LedgerEntry> = {}): LedgerEntry {
  return {
    id: "send-1",
    origin: "api",
    at: Date.UTC(2026, 0, 15, 12),
    app: "web",
    resource: "listings",
    cause: "miss",
    query: "0123456789abcdef",
    limits: "",
    ...fields,
  };
}

/** A line of a send that ended well as soon as it went, unless the fields say otherwise. */
export function ledgerLine(fields: Partial<LedgerLine> = {}): LedgerLine {
  const entry = ledgerEntry(fields);
  return { completion: { status: 200, durationMs: 10, arrivedAt: entry.at }, ...entry, ...fields };
}

/** Every line that is read, in one list. */
export async function linesOf(
  reader: Pick<LedgerReader, "read">,
  from = 0,
  to = Number.MAX_SAFE_INTEGER,
): Promise<LedgerLine[]> {
  return (await piecesOf(reader, from, to)).flat();
}

export async function piecesOf(
  reader: Pick<LedgerReader, "read">,
  from = 0,
  to = Number.MAX_SAFE_INTEGER,
): Promise<(readonly LedgerLine[])[]> {
  const pieces: (readonly LedgerLine[])[] = [];
  for await (const piece of reader.read(from, to)) pieces.push(piece);
  return pieces;
}

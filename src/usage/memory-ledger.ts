import {
  instantOf,
  type LedgerBounds,
  type LedgerCompletion,
  type LedgerLine,
  type OwnLedger,
} from "./ledger.ts";

/** The number of lines that are read at a time. */
const PIECE = 1_000;

/** A ledger in the memory of this process, for a gateway that keeps nothing on disk. */
export function createMemoryLedger({ retentionMs, maxRecords, now, onOverflow }: LedgerBounds): OwnLedger {
  /** In the order of entry. */
  const lines = new Map<string, LedgerLine>();
  let completeSince = now();

  function dropOld(): void {
    const horizon = now() - retentionMs;
    for (const { id, at } of lines.values()) {
      if (at > horizon && lines.size <= maxRecords) break;
      if (at > horizon) onOverflow?.();
      lines.delete(id);
      completeSince = Math.max(completeSince, at + 1);
    }
  }

  return {
    enter(entry) {
      if (lines.has(entry.id)) return;
      lines.set(entry.id, { ...entry, completion: undefined });
      dropOld();
    },
    complete(id, completion) {
      const line = lines.get(id);
      if (line !== undefined) lines.set(id, { ...line, completion });
    },
    recent(origin, since) {
      const at = now();
      return [...lines.values()]
        .filter((line) => line.origin === origin && line.completion?.status !== "unsent")
        .filter((line) => instantOf(line) >= since)
        .sort((one, other) => instantOf(one) - instantOf(other))
        .map((line) => notAfter(line, at));
    },
    async *read(from, to) {
      // If the clock was set back, the order of entry is not the order of time.
      const wanted = [...lines.values()]
        .filter(({ at }) => from <= at && at < to)
        .sort((one, other) => one.at - other.at);
      for (let first = 0; first < wanted.length; first += PIECE) yield wanted.slice(first, first + PIECE);
    },
    completeSince: async () => Math.min(completeSince, now()),
  };
}

/** The line as it counts now, even if the clock was ahead when it was entered. */
function notAfter(line: LedgerLine, now: number): LedgerLine {
  const { completion } = line;
  const inTime: LedgerCompletion | undefined = completion && {
    ...completion,
    arrivedAt: Math.min(completion.arrivedAt, now),
  };
  return { ...line, at: Math.min(line.at, now), completion: inTime };
}

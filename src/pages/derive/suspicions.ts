/**
 * Disagreements that a change of the data could explain. They stay until the broader search is fetched again, and
 * meanwhile nothing is computed with the filter.
 */
import type { Clock } from "../../process/clock.ts";
import type { Entry } from "../../types.ts";
import { type BlockBytes, recordBytes } from "./body.ts";
import type { Suspicion } from "./compare.ts";
import type { Sample } from "./trust.ts";

export interface Suspicions {
  readonly isSuspect: (trait: string) => boolean;
  /**
   * @param step when the comparison was made
   * @param narrower the upstream's answer
   */
  readonly add: (search: string, suspicions: readonly Suspicion[], step: number, narrower: Entry) => void;
  /**
   * A block of a broader search was seen.
   * @param begun the step at which its fetch began, if this process fetched it
   * @returns the samples that a change of the data cannot explain
   */
  readonly resolve: (search: string, entry: Entry, block: BlockBytes, begun?: number) => readonly Sample[];
  readonly hasAny: (search: string) => boolean;
}

interface Noted extends Suspicion {
  readonly step: number;
  /** When the narrower answer arrived, in epoch milliseconds. */
  readonly arrivedAt: number;
  readonly notedAt: number;
}

/** A suspicion is forgotten after this time, if its broader search is not fetched again. */
const COUNTS_FOR_MS = 3_600_000;
/** The most searches that are remembered. */
const MOST_SEARCHES = 1_000;

export function createSuspicions(clock: Pick<Clock, "monotonic">): Suspicions {
  const bySearch = new Map<string, readonly Noted[]>();
  const isCurrent = ({ notedAt }: Noted): boolean => clock.monotonic() - notedAt < COUNTS_FOR_MS;

  function keep(search: string, noted: readonly Noted[]): void {
    bySearch.delete(search);
    if (noted.length > 0) bySearch.set(search, noted);
    if (bySearch.size > MOST_SEARCHES) bySearch.delete(bySearch.keys().next().value ?? "");
  }

  return {
    hasAny: (search) => bySearch.has(search),
    isSuspect: (trait) =>
      [...bySearch.values()].some((noted) =>
        noted.some((suspicion) => suspicion.sample.trait === trait && isCurrent(suspicion)),
      ),
    add(search, suspicions, step, { storedAt }) {
      if (suspicions.length === 0) return;
      const notedAt = clock.monotonic();
      const noted = suspicions.map((suspicion) => ({ ...suspicion, step, arrivedAt: storedAt, notedAt }));
      keep(search, [...(bySearch.get(search) ?? []).filter(isCurrent), ...noted]);
    },
    resolve(search, entry, block, begun) {
      const known = bySearch.get(search);
      if (known === undefined) return [];
      const isAnswered = ({ step, arrivedAt, offset }: Noted): boolean => {
        const isLater = begun === undefined ? entry.storedAt - entry.fetchMs > arrivedAt : begun > step;
        return offset === block.index.offset && isLater;
      };
      const records = new Map(block.index.ids.map((id, nth) => [id, recordBytes(block, nth)]));
      keep(
        search,
        known.filter((noted) => !isAnswered(noted) && isCurrent(noted)),
      );
      return known
        .filter((noted) => isAnswered(noted) && noted.isConfirmedBy(records))
        .map(({ sample }) => sample);
    },
  };
}

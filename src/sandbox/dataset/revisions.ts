/**
 * Data that changes while the sandbox runs. Each revision changes the content of the answers of some paths.
 *
 * Only the shown values change. Searches still use the original data, so a revised price may be slightly beyond the
 * bound of its search.
 */
import type { AreaRecord, PropertyRecord, PropertyRow } from "./model.ts";

/** A change of the data behind the paths that start with the prefix. */
interface Revision {
  /** Counts from 1, over all prefixes. */
  readonly revision: number;
  /** Empty: every path. */
  readonly pathPrefix: string;
  /** Epoch milliseconds. */
  readonly at: number;
}

/** The number of a path's last revision (0: never revised), and when it was made. */
export interface Revised {
  readonly revision: number;
  /** Epoch milliseconds. */
  readonly changedAt: number;
}

export interface Revisions {
  readonly add: (pathPrefix?: string) => void;
  readonly of: (path: string) => Revised;
  /** The last revision of each prefix, in the order in which they were made. */
  readonly list: () => Revision[];
  /** Restores the original data. */
  readonly clear: () => void;
}

/**
 * The original data counts as made this long before the start of the sandbox. `Last-Modified` has whole seconds, and a
 * revision right after the start must not be in the same second.
 */
const MADE_BEFORE_START_MS = 3_600_000;

/** The base for the revised price of a listing without a price. */
const FIRST_PRICE = 1_000_000;

/**
 * @param now the sandbox's clock, epoch milliseconds
 * @param changes further changes of each path
 */
export function createRevisions(now: () => number, changes?: Pick<Revisions, "of">): Revisions {
  const madeAt = now() - MADE_BEFORE_START_MS;
  const byPrefix = new Map<string, Revision>();
  let count = 0;

  return {
    add(pathPrefix = "") {
      count += 1;
      // Delete first, so that the map stays in the order of the revisions.
      byPrefix.delete(pathPrefix);
      byPrefix.set(pathPrefix, { revision: count, pathPrefix, at: now() });
    },
    of(path) {
      const last = [...byPrefix.values()].findLast(({ pathPrefix }) => path.startsWith(pathPrefix));
      const { revision, changedAt } = changes?.of(path) ?? { revision: 0, changedAt: madeAt };
      if (last === undefined) return { revision, changedAt };
      return { revision: last.revision + revision, changedAt: Math.max(last.at, changedAt) };
    },
    list: () => [...byPrefix.values()],
    clear() {
      byPrefix.clear();
      count = 0;
    },
  };
}

function revisedProperty(record: PropertyRecord, revision: number): PropertyRecord {
  if (record.soldPrice !== undefined) return { ...record, soldPrice: record.soldPrice + revision };
  return { ...record, listPrice: (record.listPrice ?? FIRST_PRICE) + revision };
}

/** A record after a revision, with another price, or for an area with another `fullName`. */
export function revisedRecord(
  record: PropertyRecord | AreaRecord,
  revision: number,
): PropertyRecord | AreaRecord {
  // Return the same object, because its JSON text is cached.
  if (revision === 0) return record;
  if ("fullName" in record) return { ...record, fullName: `${record.fullName} (${revision})` };
  return revisedProperty(record, revision);
}

/** A single record after a revision, with another price and more page views. */
export function revisedRow(row: PropertyRow, revision: number): PropertyRow {
  if (revision === 0) return row;
  return { ...row, record: revisedProperty(row.record, revision), pageviews: row.pageviews + revision };
}

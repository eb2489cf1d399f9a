/**
 * Shares observed changes between answers, without calls: a record that has changed in one answer has changed in every stored
 * answer that contains it. Those answers count the change at their next fetch, so nothing searches the cache for them.
 */
import { setImmediate } from "node:timers/promises";

import { recordsIn } from "../../interface/envelope.ts";
import type { Resource } from "../../interface/resources.ts";
import { type Entry, recordTag } from "../entry.ts";

/** Beyond this many records, the changes of those that changed longest ago are forgotten. */
const MOST_RECORDS = 10_000;
/** How many of the latest changes are remembered for each record. */
const MOST_CHANGES = 10;
/** A larger body is parsed in a separate turn of the event loop. */
const LARGE_BYTES = 64 * 1024;

/** When changes of records were noticed, by tag; epoch milliseconds. Ordered by the last change, oldest first. */
export type RecordChanges = Map<string, readonly number[]>;

/**
 * Notes the records that differ between a cached JSON answer and its next version.
 * @param before the body of `cached`, without coding
 * @param now epoch milliseconds
 */
export async function noteChanges(
  changes: RecordChanges,
  resource: Resource,
  { storedAt }: Entry,
  before: Buffer,
  after: Buffer,
  now: number,
): Promise<void> {
  const texts = new Map(await textsIn(resource, before));
  for (const [id, text] of await textsIn(resource, after)) {
    if (!texts.has(id) || texts.get(id) === text) continue;
    const tag = recordTag(resource, id);
    const at = changes.get(tag) ?? [];
    // If another answer has shown a change since then, this is probably the same one.
    if ((at.at(-1) ?? 0) > storedAt) continue;
    changes.delete(tag);
    changes.set(tag, [...at, now].slice(-MOST_CHANGES));
    if (changes.size > MOST_RECORDS) changes.delete(changes.keys().next().value ?? "");
  }
}

/** The number of changes in records of an entry that were noticed after the entry was stored. */
export function changesSince(changes: RecordChanges, { tags, storedAt }: Entry): number {
  const instants = tags.flatMap((tag) => changes.get(tag) ?? []).filter((at) => at > storedAt);
  return new Set(instants).size;
}

/** The records of an answer, by id; none if the body is not JSON. */
async function textsIn(resource: Resource, body: Buffer): Promise<[id: string, text: string][]> {
  // Parsing a block takes a millisecond or two. Let other requests go first.
  if (body.length > LARGE_BYTES) await setImmediate();
  try {
    const records = recordsIn(JSON.parse(body.toString("utf8")), resource);
    return records.map(([id, record]) => [id, JSON.stringify(record)]);
  } catch {
    return [];
  }
}

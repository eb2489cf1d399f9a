/**
 * Free signals: a record that has changed in one answer has changed in every stored answer that holds it. Each of those counts
 * the change when it is fetched again, so nothing walks the cache.
 */
import { setImmediate } from "node:timers/promises";

import { recordsIn } from "../../interface/envelope.ts";
import type { Resource } from "../../interface/resources.ts";
import { type Entry, recordTag } from "../entry.ts";

/** Beyond this many records, the changes of those that changed longest ago are forgotten. */
const MOST_RECORDS = 10_000;
/** The latest changes of a record that are remembered. */
const MOST_CHANGES = 10;
/** A larger body is read in a turn of the event loop of its own. */
const LARGE_BYTES = 64 * 1024;

/** When records were seen to change, by tag; epoch milliseconds. Ordered by the last change, oldest first. */
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

/** How often records of an entry were seen to change after it was stored. */
export function changesSince(changes: RecordChanges, { tags, storedAt }: Entry): number {
  const instants = tags.flatMap((tag) => changes.get(tag) ?? []).filter((at) => at > storedAt);
  return new Set(instants).size;
}

/** The records of an answer, by id; none if the body is not JSON. */
async function textsIn(resource: Resource, body: Buffer): Promise<[id: string, text: string][]> {
  // A block takes a millisecond or two. Other requests are served before.
  if (body.length > LARGE_BYTES) await setImmediate();
  try {
    const records = recordsIn(JSON.parse(body.toString("utf8")), resource);
    return records.map(([id, record]) => [id, JSON.stringify(record)]);
  } catch {
    return [];
  }
}

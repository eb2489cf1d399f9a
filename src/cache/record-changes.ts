/**
 * Free signals: a record that has changed in one answer has changed in every stored answer that holds it. Each of those counts
 * the change when it is fetched again, so nothing walks the cache.
 */
import { hash } from "node:crypto";

import { recordsIn } from "../interface/envelope.ts";
import type { Resource } from "../interface/resources.ts";
import { type Entry, recordTag } from "./entry.ts";

export interface RecordChanges {
  /** Compares two versions of a JSON answer, without coding, and notes the records that differ. @param now epoch milliseconds */
  readonly note: (resource: Resource, before: Buffer, after: Buffer, now: number) => void;
  /** How often records of an entry were seen to change after it was stored. */
  readonly since: (entry: Pick<Entry, "tags" | "storedAt">) => number;
}

/** Beyond this many records, the changes of those that changed longest ago are forgotten. */
const MOST_RECORDS = 10_000;
/** The latest changes of a record that are remembered. */
const MOST_CHANGES = 10;

interface Seen {
  /** What the record has become, so that the same change in a second answer is no second change. */
  readonly digest: string;
  readonly at: readonly number[];
}

export function createRecordChanges(): RecordChanges {
  /** Ordered by the last change, oldest first. */
  const changed = new Map<string, Seen>();

  return {
    note(resource, before, after, now) {
      const texts = new Map(textsIn(resource, before));
      for (const [id, text] of textsIn(resource, after)) {
        if (!texts.has(id) || texts.get(id) === text) continue;
        const tag = recordTag(resource, id);
        const digest = hash("sha256", text, "base64url");
        const { digest: known, at = [] } = changed.get(tag) ?? {};
        if (digest === known) continue;
        changed.delete(tag);
        changed.set(tag, { digest, at: [...at, now].slice(-MOST_CHANGES) });
        if (changed.size > MOST_RECORDS) changed.delete(changed.keys().next().value ?? "");
      }
    },
    since({ tags, storedAt }) {
      const instants = tags.flatMap((tag) => changed.get(tag)?.at ?? []).filter((at) => at > storedAt);
      return new Set(instants).size;
    },
  };
}

/** The records of an answer, by id; none if the body is not JSON. */
function textsIn(resource: Resource, body: Buffer): [id: string, text: string][] {
  try {
    const records = recordsIn(JSON.parse(body.toString("utf8")), resource);
    return records.map(([id, record]) => [id, JSON.stringify(record)]);
  } catch {
    return [];
  }
}

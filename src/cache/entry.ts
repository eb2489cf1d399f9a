import { hash } from "node:crypto";

import type { Entry, Fetched } from "../exchange.ts";

/**
 * Makes the entry of an answer.
 * @param now epoch milliseconds: when the answer was received
 * @param lifetimeMs how long it is fresh
 */
export function entryOf(fetched: Fetched, now: number, lifetimeMs: number): Entry {
  const { status, contentType, body, lastModified } = fetched;
  return {
    status,
    contentType,
    body,
    encoded: {},
    etag: hash("sha256", body, "base64url").slice(0, 22),
    lastModified,
    storedAt: now,
    freshUntil: now + lifetimeMs,
  };
}

/** What an entry weighs besides its bodies: the object, its headers, its place in the index. A guess on the safe side. */
const ENTRY_OVERHEAD_BYTES = 512;

/** Bytes an entry occupies under its key. */
export function sizeOf(key: string, entry: Entry): number {
  let bytes = ENTRY_OVERHEAD_BYTES + key.length * 2 + entry.body.length;
  for (const body of Object.values(entry.encoded)) bytes += body.length;
  return bytes;
}

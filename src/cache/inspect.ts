import type { ContentCoding, Entry, Tier } from "../exchange.ts";
import { type Bounds, isFresh } from "./policy.ts";
import type { Tiers } from "./tiers.ts";

/** What is known of a question's answer, for an operator. Times in seconds. */
export interface Inspection {
  readonly key: string;
  /** What a request for it would do now. */
  readonly next: "hit" | "fetch";
  readonly why: "fresh" | "not stored" | "expired" | "purged";
  readonly entry: InspectedEntry | null;
}

interface InspectedEntry {
  readonly tier: Tier;
  readonly status: number;
  readonly ageSeconds: number;
  /** Negative where it has expired. */
  readonly freshForSeconds: number;
  readonly keptForSeconds: number;
  readonly bodyBytes: number;
  readonly codings: readonly ContentCoding[];
  readonly etag: string;
  readonly tags: readonly string[];
}

/** @returns a function that says what is known of a key; it asks the stores and nobody else */
export function createInspect(
  tiers: Tiers,
  bounds: Bounds,
  now: () => number,
): (key: string) => Promise<Inspection> {
  return async function inspect(key) {
    const found = await tiers.lookup(key);
    if (found === undefined) return { key, next: "fetch", why: "not stored", entry: null };
    const { entry, tier, isPurged } = found;
    const fresh = isFresh(entry, now(), bounds);
    return {
      key,
      next: fresh && !isPurged ? "hit" : "fetch",
      why: isPurged ? "purged" : fresh ? "fresh" : "expired",
      entry: inspected(entry, tier, now()),
    };
  };
}

function inspected(entry: Entry, tier: Tier, now: number): InspectedEntry {
  const { status, bodyBytes, etag, tags } = entry;
  const seconds = (ms: number): number => Math.floor(ms / 1000);
  return {
    tier,
    status,
    ageSeconds: seconds(now - entry.storedAt),
    freshForSeconds: seconds(entry.freshUntil - now),
    keptForSeconds: seconds(entry.keepUntil - now),
    bodyBytes,
    codings: (["identity", "zstd", "br", "gzip"] as const).filter(
      (coding) => entry.bodies[coding] !== undefined,
    ),
    etag,
    tags,
  };
}

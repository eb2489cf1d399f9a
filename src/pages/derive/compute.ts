/**
 * Computes the result of a narrower search from the blocks of a broader one, in the broader one's order. The result
 * is one block, and pages are cut from it as from any other.
 */
import { hash } from "node:crypto";

import type { Entry } from "../../types.ts";
import { type BlockIndex, type FoldedResource, indexBlock } from "../block-index.ts";
import { textAt } from "../json-ranges.ts";
import { type BlockBytes, derivedBody, formOf } from "./body.ts";
import { echoOrder, type PlacedRecord, placeRecords } from "./compare.ts";
import type { FilterTest } from "./filters.ts";
import { echoTrait, placeTrait, type Sign } from "./trust.ts";

/** What is known about a trait; `undefined`: nothing. */
export type SignOf = (trait: string) => Sign | undefined;

/** A computed result, and what it depends on. */
export interface Computed {
  /** The part of its entry that does not depend on the freshness of the sources. */
  readonly entry: Pick<Entry, "bodies" | "bodyBytes" | "etag" | "validators">;
  readonly index: BlockIndex;
  /** The traits that it depends on. */
  readonly traits: ReadonlyMap<string, Sign>;
}

export interface Computation {
  readonly resource: FoldedResource;
  readonly includeUnset: string;
  readonly added: readonly FilterTest[];
  readonly blocks: readonly BlockBytes[];
  /** The size of the narrower search's blocks. */
  readonly size: number;
  readonly signOf: SignOf;
}

/** Whether the filters may be used at all. This does not depend on the records. */
export function mayUse({
  resource,
  includeUnset,
  added,
  signOf,
}: Omit<Computation, "blocks" | "size">): boolean {
  return added.every(
    ({ name, value }) =>
      signOf(placeTrait(resource, name, includeUnset, "inside")) === "+" &&
      signOf(echoTrait(resource, name, formOf(value))) === "+",
  );
}

/** @returns `undefined` if the gateway cannot know what the upstream would send */
export function compute(computation: Computation): Computed | undefined {
  const { resource, added, blocks, size } = computation;
  const [first] = blocks;
  const { signOf, used } = remembering(computation.signOf);
  if (first === undefined || !mayUse({ ...computation, signOf })) return undefined;
  const records = placeRecords(blocks, added);
  const kept = records && included(records, { ...computation, signOf });
  if (kept === undefined) return undefined;
  const body = derivedBody({
    resource,
    first,
    added: added.map(({ name, value }) => [name, value]),
    records: kept.map(({ bytes }) => bytes),
    limit: Math.max(size, kept.length),
  });
  const index = body && indexBlock(body, resource, { offset: 0, limit: Math.max(size, kept.length) });
  if (body === undefined || index === undefined || typeof index === "string") return undefined;
  const order = index.echo === undefined ? [] : echoOrder(resource, textAt(body, index.echo), added);
  if (!order.every((trait) => signOf(trait) === "+")) return undefined;
  const entry = {
    bodies: { identity: body },
    bodyBytes: body.length,
    etag: hash("sha256", body, "base64url").slice(0, 22),
    validators: { etag: undefined, lastModified: undefined },
  };
  return { entry, index, traits: used };
}

/** The records that all filters include; `undefined` if that is unknown for one of them. */
function included(
  records: readonly PlacedRecord[],
  { resource, includeUnset, added, signOf }: Omit<Computation, "blocks" | "size">,
): PlacedRecord[] | undefined {
  const kept: PlacedRecord[] = [];
  for (const record of records) {
    const signs = new Set(
      record.places.map((place, nth) => {
        if (place === "inside") return "+";
        if (place === "outside") return "-";
        return signOf(placeTrait(resource, added[nth]?.name ?? "", includeUnset, place));
      }),
    );
    if (signs.has("-")) continue;
    if (signs.has(undefined)) return undefined;
    kept.push(record);
  }
  return kept;
}

/** Looks up each trait once, and records which ones were used. */
function remembering(ask: SignOf): { readonly signOf: SignOf; readonly used: Map<string, Sign> } {
  const used = new Map<string, Sign>();
  return {
    used,
    signOf(trait) {
      const sign = used.get(trait) ?? ask(trait);
      if (sign !== undefined) used.set(trait, sign);
      return sign;
    },
  };
}

/** An entry of a result: as old as the oldest of its sources, and fresh as long as all of them are. */
export function entryFrom({ entry }: Pick<Computed, "entry">, sources: readonly [Entry, ...Entry[]]): Entry {
  const [first] = sources;
  const least = (pick: (source: Entry) => number): number => Math.min(...sources.map(pick));
  return {
    ...first,
    ...entry,
    purgeEpoch: least(({ purgeEpoch }) => purgeEpoch),
    storedAt: least(({ storedAt }) => storedAt),
    bornAt: least(({ bornAt }) => bornAt),
    freshUntil: least(({ freshUntil }) => freshUntil),
    keepUntil: least(({ keepUntil }) => keepUntil),
    tags: first.tags.filter((tag) => tag.startsWith("area:")),
  };
}

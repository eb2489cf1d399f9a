/**
 * Compares an answer of the upstream, record by record, with the answer that would have been computed from a broader
 * search. The result contains what the comparison shows about the filters.
 *
 * The broader search is older, so the data may have changed meanwhile. A record whose bytes differ shows nothing. A record
 * that is missing without a reason may have disappeared. That is a suspicion until the broader search is fetched again.
 */
import type { FoldedResource } from "../block-index.ts";
import { type BlockBytes, derivedBody, formOf, namesInEcho, recordBytes } from "./body.ts";
import { textAt } from "../json-ranges.ts";
import { type FilterTest, membersOf, type Place } from "./filters.ts";
import { echoOrderTrait, echoTrait, placeTrait, type Sample, type Sign } from "./trust.ts";

export interface Compared {
  readonly resource: FoldedResource;
  readonly includeUnset: string;
  /** The upstream's answer: all of the narrower search in one block. */
  readonly narrower: BlockBytes;
  /** All blocks of the broader search. */
  readonly broader: readonly BlockBytes[];
  readonly added: readonly FilterTest[];
  /** The id of the comparison. */
  readonly id: string;
}

/** A sample that a change of the data would explain. */
export interface Suspicion {
  readonly sample: Sample;
  /** The offset of the block of the broader search that can confirm it. */
  readonly offset: number;
  /** Whether the records of that block, fetched again, rule out a change. */
  readonly isConfirmedBy: (records: ReadonlyMap<string, Buffer>) => boolean;
}

export interface Comparison {
  readonly samples: readonly Sample[];
  readonly suspicions: readonly Suspicion[];
}

/** A record of the broader search. */
export interface PlacedRecord {
  readonly id: string;
  readonly bytes: Buffer;
  /** The offset of its block. */
  readonly offset: number;
  /** Its place under each filter. */
  readonly places: readonly Place[];
}

/** @returns the records of a search with their places; `undefined` if one cannot be judged, or occurs twice */
export function placeRecords(
  blocks: readonly BlockBytes[],
  tests: readonly FilterTest[],
): readonly PlacedRecord[] | undefined {
  const wanted = new Set(tests.map(({ member }) => member));
  const records: PlacedRecord[] = [];
  for (const block of blocks) {
    const { body, index } = block;
    for (const [nth, id] of index.ids.entries()) {
      const members = membersOf(body, index.starts[nth] ?? 0, wanted);
      const places = members && tests.flatMap((test) => test.placeOf(members) ?? []);
      if (places?.length !== tests.length) return undefined;
      records.push({ id, bytes: recordBytes(block, nth), offset: index.offset, places });
    }
  }
  return new Set(records.map(({ id }) => id)).size === records.length ? records : undefined;
}

/** @returns `undefined` if a record cannot be judged */
export function compare(compared: Compared): Comparison | undefined {
  const { added, broader, narrower } = compared;
  const records = placeRecords(broader, added);
  if (records === undefined) return undefined;
  const found = new Map(narrower.index.ids.map((id, nth) => [id, recordBytes(narrower, nth)]));
  const evidence = createEvidence(compared);
  const common: PlacedRecord[] = [];
  for (const record of records) {
    const bytes = found.get(record.id);
    if (bytes === undefined) evidence.missing(record);
    else if (bytes.equals(record.bytes)) {
      evidence.present(record);
      common.push(record);
    }
  }
  const isInOrder = checkOrder(common, narrower.index.ids, evidence);
  if (isInOrder && common.length === found.size) checkEcho(compared, common, evidence);
  return evidence.finish();
}

interface Evidence {
  /** The narrower answer has the record, with the same bytes. */
  readonly present: (record: PlacedRecord) => void;
  /** The narrower answer does not have it. */
  readonly missing: (record: PlacedRecord) => void;
  readonly suspect: (suspicion: Omit<Suspicion, "sample">) => void;
  readonly saw: (trait: string, sign: Sign) => void;
  readonly finish: () => Comparison;
}

function createEvidence({ resource, includeUnset, added, id }: Compared): Evidence {
  const samples = new Map<string, Sample>();
  const suspicions = new Map<string, Suspicion>();
  /** The filters that alone excluded a record. */
  const excluding = new Set<string>();
  /** Whether some record was included by all filters. */
  let includesSome = false;

  const traitOf = (test: FilterTest | undefined, place: Place): string =>
    placeTrait(resource, test?.name ?? "", includeUnset, place);
  function saw(trait: string, sign: Sign): void {
    samples.set(`${trait}${sign}`, { trait, sign, id });
  }
  function suspectTrait(trait: string, suspicion: Omit<Suspicion, "sample">): void {
    if (!suspicions.has(trait)) suspicions.set(trait, { ...suspicion, sample: { trait, sign: "-", id } });
  }
  function suspect(suspicion: Omit<Suspicion, "sample">): void {
    for (const test of added) suspectTrait(traitOf(test, "inside"), suspicion);
  }

  return {
    saw,
    suspect,
    present({ places }) {
      if (places.every((place) => place === "inside")) includesSome = true;
      for (const [nth, place] of places.entries()) {
        if (place === "outside") saw(traitOf(added[nth], place), "-");
        else if (place !== "inside") saw(traitOf(added[nth], place), "+");
      }
    },
    missing({ id: record, bytes, offset, places }) {
      const isConfirmedBy: Suspicion["isConfirmedBy"] = (now) => now.get(record)?.equals(bytes) === true;
      const [reason, ...others] = places.flatMap((place, nth) => (place === "inside" ? [] : [nth]));
      // All filters include the record, so it should be present.
      if (reason === undefined) return suspect({ offset, isConfirmedBy });
      const place = places[reason] ?? "inside";
      // If there are several possible reasons, it shows nothing about any one of them.
      if (others.length > 0) return;
      const trait = traitOf(added[reason], place);
      if (place === "outside") excluding.add(added[reason]?.name ?? "");
      // Documented: `includeUnset=0` excludes records without a value.
      else if (place === "unset" && includeUnset === "0") saw(trait, "-");
      else suspectTrait(trait, { offset, isConfirmedBy });
    },
    finish() {
      for (const test of added) {
        const trait = traitOf(test, "inside");
        const isAgreed = includesSome && excluding.has(test.name) && !suspicions.has(trait);
        if (isAgreed && !samples.has(`${trait}-`)) saw(trait, "+");
      }
      return { samples: [...samples.values()], suspicions: [...suspicions.values()] };
    },
  };
}

/** @returns whether the common records are in the same order */
function checkOrder(common: readonly PlacedRecord[], ids: readonly string[], evidence: Evidence): boolean {
  const places = new Map(ids.map((id, nth) => [id, nth]));
  const nth = common.findIndex((record, at) => {
    const before = common[at - 1];
    return before !== undefined && (places.get(before.id) ?? 0) > (places.get(record.id) ?? 0);
  });
  const [before, after] = [common[nth - 1], common[nth]];
  if (before === undefined || after === undefined) return true;
  evidence.suspect({
    offset: before.offset,
    isConfirmedBy(now) {
      const order = [...now.keys()];
      const isSame = now.get(before.id)?.equals(before.bytes) === true;
      // The next record may be in the next block.
      const isBehind = !now.has(after.id) || order.indexOf(before.id) < order.indexOf(after.id);
      return isSame && isBehind;
    },
  });
  return false;
}

/** Checks everything except the records: whether the whole answer would have equalled the upstream's, byte for byte. */
function checkEcho(
  { resource, narrower, broader: [first], added }: Compared,
  records: readonly PlacedRecord[],
  evidence: Evidence,
): void {
  if (first === undefined) return;
  const { body, index } = narrower;
  const filters = added.map(({ name, value }) => [name, value] as const);
  const bytes = records.map((record) => record.bytes);
  const expected = derivedBody({ resource, first, added: filters, records: bytes, limit: index.limit });
  if (expected === undefined) return;
  const isSame = expected.equals(body);
  for (const [name, value] of filters)
    evidence.saw(echoTrait(resource, name, formOf(value)), isSame ? "+" : "-");
  if (isSame && index.echo !== undefined)
    for (const trait of echoOrder(resource, textAt(body, index.echo), added)) evidence.saw(trait, "+");
}

/** The traits for the order in which an echo names the added filters. */
export function echoOrder(
  resource: FoldedResource,
  echo: string,
  added: readonly Pick<FilterTest, "name">[],
): readonly string[] {
  const names = namesInEcho(echo) ?? [];
  return added.flatMap(({ name }) =>
    names.flatMap((other) => {
      if (other === name) return [];
      const [first, second] = names.indexOf(name) < names.indexOf(other) ? [name, other] : [other, name];
      return [echoOrderTrait(resource, first, second)];
    }),
  );
}

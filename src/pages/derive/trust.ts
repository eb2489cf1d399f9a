/**
 * What the gateway has learned about the upstream's filters, and when it trusts that.
 *
 * A trait is one way in which a filter may behave, for example whether `minRooms` includes a record with exactly that many
 * rooms. Each sample shows that it does (`+`) or does not (`-`). A trait is trusted after enough samples that all agree.
 * Samples are only added, so replicas cannot overwrite what another one has learned.
 */
import type { Clock } from "../../process/clock.ts";
import type { LearnedStore, Observer } from "../../types.ts";
import type { Place } from "./filters.ts";

export type Sign = "+" | "-";

/** A sample of a trait. */
export interface Sample {
  readonly trait: string;
  readonly sign: Sign;
  /** The id of its comparison. Each comparison counts once. */
  readonly id: string;
}

export interface Trust {
  /** @returns the sign of a trait; `undefined` if it is unknown, or samples contradict each other */
  readonly signOf: (trait: string) => Sign | undefined;
  /** @returns the samples that contradict what was learned before */
  readonly add: (samples: readonly Sample[]) => readonly Sample[];
  /** Reads what other replicas learned; resolves with `false` if that is not possible now. */
  readonly isUpToDate: () => Promise<boolean>;
  /** Whether what other replicas learned was read recently, without waiting. */
  readonly isUpToDateNow: () => boolean;
}

export interface TrustOptions {
  /** Absent: what was learned is forgotten when the process ends. */
  readonly learned: LearnedStore | undefined;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** The number of samples after which a trait is trusted (`derive.minSamples`). */
  readonly minSamples: () => number;
  readonly observer: Pick<Observer, "info" | "error">;
}

/** How long a sample counts. The upstream may change, so a filter that is not used any more is tried again. */
const COUNTS_FOR_MS = 30 * 86_400_000;
/** Older samples are replaced by newer ones, before they no longer count. */
const RENEWED_AFTER_MS = COUNTS_FOR_MS / 2;
/** How often the gateway reads what other replicas learned. */
const READ_EVERY_MS = 1_000;

/**
 * @returns the trait that a filter includes records at this place. `inside` and `outside` are one trait, `bounds`: the
 *   filter includes what is inside and excludes what is outside.
 */
export function placeTrait(resource: string, filter: string, includeUnset: string, place: Place): string {
  const what = place === "inside" || place === "outside" ? "bounds" : place;
  return `${resource} ${filter} includeUnset=${includeUnset} ${what}`;
}

/** The trait that the upstream repeats a value as expected in `searchParams`. */
export function echoTrait(resource: string, filter: string, form: string): string {
  return `${resource} ${filter} echo ${form}`;
}

/** The trait that one name precedes another one in `searchParams`. */
export function echoOrderTrait(resource: string, first: string, second: string): string {
  return `${resource} echo ${first}${BEFORE}${second}`;
}

const BEFORE = " before ";

export function createTrust({ learned, clock, minSamples, observer }: TrustOptions): Trust {
  const counts = createCounts(clock);
  const storage = learned && createStorage(learned, counts, clock);

  function signOf(trait: string): Sign | undefined {
    // One sample is enough for the order of names, because an upstream does not shuffle them.
    const samples = trait.includes(BEFORE) ? 1 : minSamples();
    const [plus, minus] = [counts.count(trait, "+"), counts.count(trait, "-")];
    if (plus > 0 && minus > 0) return undefined;
    if (plus >= samples) return "+";
    return minus >= samples ? "-" : undefined;
  }
  /** @returns whether it contradicts what was learned before */
  function add(sample: Sample): boolean {
    const { trait, sign } = sample;
    const contradicts = counts.count(trait, sign === "+" ? "-" : "+") > 0;
    // More samples than necessary would only use memory.
    if (counts.count(trait, sign, RENEWED_AFTER_MS) >= minSamples() && !contradicts) return false;
    const before = signOf(trait);
    counts.add(sample, clock.now());
    storage?.keep(sample);
    const after = signOf(trait);
    if (before === undefined && after !== undefined)
      observer.info("Learned how the upstream filters.", { trait, holds: after === "+" });
    return contradicts;
  }

  return {
    signOf,
    add(samples) {
      const contradictions = samples.filter(add);
      storage?.save();
      return contradictions;
    },
    isUpToDate: async () => storage === undefined || (await storage.isUpToDate()),
    isUpToDateNow: () => storage === undefined || storage.isUpToDateNow(),
  };
}

/** Counts samples. */
interface Counts {
  readonly add: (sample: Sample, at: number) => void;
  /** How many samples agree on a trait. @param withinMs counts only samples that are not older than this */
  readonly count: (trait: string, sign: Sign, withinMs?: number) => number;
}

function createCounts(clock: Pick<Clock, "now">): Counts {
  /** When each sample was taken: by trait and sign, then by the id of the sample. */
  const samples = new Map<string, Map<string, number>>();
  return {
    add({ trait, sign, id }, at) {
      const known = samples.get(sign + trait) ?? new Map<string, number>();
      samples.set(sign + trait, known.set(id, at));
    },
    count(trait, sign, withinMs = COUNTS_FOR_MS) {
      const from = clock.now() - withinMs;
      return [...(samples.get(sign + trait)?.values() ?? [])].filter((at) => at > from).length;
    },
  };
}

/** Stores samples, and reads those of other replicas. */
interface SampleStorage extends Pick<Trust, "isUpToDate" | "isUpToDateNow"> {
  readonly keep: (sample: Sample) => void;
  /** Writes the samples that are not written yet, now or when the store works again. */
  readonly save: () => void;
}

function createStorage(learned: LearnedStore, counts: Counts, clock: TrustOptions["clock"]): SampleStorage {
  const unsaved = new Set<string>();
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<boolean> | undefined;

  async function save(): Promise<void> {
    const facts = [...unsaved];
    const now = clock.now();
    if (facts.length > 0) await learned.add(facts, now, now - COUNTS_FOR_MS);
    for (const fact of facts) unsaved.delete(fact);
  }
  async function read(): Promise<boolean> {
    try {
      await save();
      for (const [fact, at] of await learned.read()) counts.add(sampleIn(fact), at);
      readAt = clock.monotonic();
      return true;
    } catch {
      // The store reports its own faults.
      return false;
    } finally {
      reading = undefined;
    }
  }

  function isUpToDateNow(): boolean {
    const sinceMs = clock.monotonic() - readAt;
    return sinceMs < READ_EVERY_MS || (sinceMs < Number.POSITIVE_INFINITY && !learned.isShared);
  }

  return {
    isUpToDateNow,
    keep: (sample) => void unsaved.add(factOf(sample)),
    save: () => void save().catch(() => undefined),
    isUpToDate: async () => isUpToDateNow() || (await (reading ??= read())),
  };
}

function factOf({ trait, sign, id }: Sample): string {
  return `${trait}|${sign}|${id}`;
}

function sampleIn(fact: string): Sample {
  const [trait = "", sign, id = ""] = fact.split("|");
  return { trait, sign: sign === "+" ? "+" : "-", id };
}

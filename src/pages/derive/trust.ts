/**
 * What was learned about how the upstream filters, and how far it is trusted.
 *
 * A trait is one way in which a filter may behave: for example whether `minRooms` includes a record that has exactly so many
 * rooms. Each sample says that it does (`+`) or does not (`-`). A trait is trusted after enough samples that all say the
 * same. Samples are only ever added, so replicas cannot overwrite what another one has learned.
 */
import type { Clock } from "../../process/clock.ts";
import type { LearnedStore, Observer } from "../../types.ts";
import type { Place } from "./filters.ts";

export type Sign = "+" | "-";

/** A sample of a trait. */
export interface Sample {
  readonly trait: string;
  readonly sign: Sign;
  /** Which comparison it is from: the same one counts once. */
  readonly id: string;
}

export interface Trust {
  /** @returns how a trait is known to be; `undefined`: that is not known, or samples contradict each other */
  readonly signOf: (trait: string) => Sign | undefined;
  /** @returns the samples that contradict what was learned before */
  readonly add: (samples: readonly Sample[]) => readonly Sample[];
  /** Waits until what other replicas learned is known; `false`: it cannot be known now. */
  readonly isUpToDate: () => Promise<boolean>;
  /** Whether it is known without waiting. */
  readonly isUpToDateNow: () => boolean;
}

export interface TrustOptions {
  /** Absent: what was learned is forgotten when the process ends. */
  readonly learned: LearnedStore | undefined;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** How many samples earn trust (`derive.minSamples`). */
  readonly minSamples: () => number;
  readonly observer: Pick<Observer, "info" | "error">;
}

/** How long a sample counts. The upstream may be changed, and a filter that was switched off gets another chance. */
const COUNTS_FOR_MS = 30 * 86_400_000;
/** Samples that are older are replaced by newer ones, before they stop to count. */
const RENEWED_AFTER_MS = COUNTS_FOR_MS / 2;
/** What another replica learned is known after so long. */
const READ_EVERY_MS = 1_000;

/** The trait that a filter excludes what is outside and includes what is inside, or what it does at a bound and without a value. */
export function placeTrait(resource: string, filter: string, includeUnset: string, place: Place): string {
  const what = place === "inside" || place === "outside" ? "bounds" : place;
  return `${resource} ${filter} includeUnset=${includeUnset} ${what}`;
}

/** The trait that the upstream repeats a value as expected in `searchParams`. */
export function echoTrait(resource: string, filter: string, form: string): string {
  return `${resource} ${filter} echo ${form}`;
}

/** The trait that one name stands before another one in `searchParams`. */
export function echoOrderTrait(resource: string, first: string, second: string): string {
  return `${resource} echo ${first}${BEFORE}${second}`;
}

const BEFORE = " before ";

export function createTrust({ learned, clock, minSamples, observer }: TrustOptions): Trust {
  const book = createBook(clock);
  const keeping = learned && createKeeping(learned, book, clock);

  function signOf(trait: string): Sign | undefined {
    // Once is enough for the order of names: an upstream does not shuffle them.
    const samples = trait.includes(BEFORE) ? 1 : minSamples();
    const [plus, minus] = [book.count(trait, "+"), book.count(trait, "-")];
    if (plus > 0 && minus > 0) return undefined;
    if (plus >= samples) return "+";
    return minus >= samples ? "-" : undefined;
  }
  /** @returns whether it contradicts what was learned before */
  function add(sample: Sample): boolean {
    const { trait, sign } = sample;
    const contradicts = book.count(trait, sign === "+" ? "-" : "+") > 0;
    // More samples than are needed would only take room.
    if (book.count(trait, sign, RENEWED_AFTER_MS) >= minSamples() && !contradicts) return false;
    const before = signOf(trait);
    book.enter(sample, clock.now());
    keeping?.keep(sample);
    const after = signOf(trait);
    if (before === undefined && after !== undefined)
      observer.info("Learned how the upstream filters.", { trait, holds: after === "+" });
    return contradicts;
  }

  return {
    signOf,
    add(samples) {
      const contradictions = samples.filter(add);
      keeping?.save();
      return contradictions;
    },
    isUpToDate: async () => keeping === undefined || (await keeping.isUpToDate()),
    isUpToDateNow: () => keeping === undefined || keeping.isUpToDateNow(),
  };
}

interface Book {
  readonly enter: (sample: Sample, at: number) => void;
  /** How many samples say the same of a trait. @param withinMs counts only what was learned lately */
  readonly count: (trait: string, sign: Sign, withinMs?: number) => number;
}

function createBook(clock: Pick<Clock, "now">): Book {
  /** By trait and sign, then by the id of a sample: when it was taken. */
  const pages = new Map<string, Map<string, number>>();
  return {
    enter({ trait, sign, id }, at) {
      const page = pages.get(sign + trait) ?? new Map<string, number>();
      pages.set(sign + trait, page.set(id, at));
    },
    count(trait, sign, withinMs = COUNTS_FOR_MS) {
      const from = clock.now() - withinMs;
      return [...(pages.get(sign + trait)?.values() ?? [])].filter((at) => at > from).length;
    },
  };
}

interface Keeping extends Pick<Trust, "isUpToDate" | "isUpToDateNow"> {
  readonly keep: (sample: Sample) => void;
  /** Writes what is not written yet, now or when the store works again. */
  readonly save: () => void;
}

function createKeeping(learned: LearnedStore, book: Book, clock: TrustOptions["clock"]): Keeping {
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
      for (const [fact, at] of await learned.read()) book.enter(sampleIn(fact), at);
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

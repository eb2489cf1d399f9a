/**
 * Those who wait for their turn, by app, priority and resource: first come, first served within each;
 * whose turn it is among them is for the allowance to say.
 *
 * One may stand in several places, for several apps that want the same: it goes with the first turn that comes,
 * and counts as one.
 */
import type { Priority } from "../types.ts";
import type { Wish } from "./allowance.ts";
import type { Candidate } from "./arbiter.ts";
import type { Queued } from "./queued.ts";

/** One in the line, in one of the places in which it stands. */
export interface Place<W> {
  readonly waiter: W;
  /** As what it would go. */
  readonly wish: Wish;
}

/** For whom the line is counted. */
interface Viewpoint<W> {
  /** Whoever stands in a place of this app, too, counts there: it goes before others of that app. */
  readonly app?: string;
  /** One in the line that is not to count. */
  readonly without?: W;
}

export interface WaitingLine<W> {
  /**
   * Has a waiter stand for these wishes, no two of one kind, and for no others: at the end of each kind in which it
   * does not stand yet. It counts as the first of them.
   * @returns whether whose turn is next may have changed
   */
  readonly stand: (waiter: W, wishes: readonly Wish[]) => boolean;
  /** @returns whether it was still there */
  readonly leave: (waiter: W) => boolean;
  readonly has: (waiter: W) => boolean;
  /** Whether the waiter stands there still. */
  readonly holds: (place: Place<W>) => boolean;
  /** The first of each kind, in the order in which they came. */
  readonly heads: (mayGo: (priority: Priority) => boolean) => readonly Place<W>[];
  /** How many wait, by app, priority and resource. */
  readonly queued: (viewpoint?: Viewpoint<W>) => readonly Queued[];
  readonly length: (priority: Priority) => number;
  readonly isEmpty: () => boolean;
  /** Everyone, in no order. */
  readonly all: () => readonly W[];
  /** The kinds that somebody stands in: each the same object as long as somebody does. */
  readonly kinds: () => readonly Candidate[];
  /** Those in which a waiter stands; it counts as the first. */
  readonly kindsOf: (waiter: W) => readonly Candidate[];
}

interface Kind<W> extends Candidate {
  /** Sets keep the order of joining. */
  readonly places: Set<Standing<W>>;
  /** Those among them that count elsewhere. */
  readonly guests: Set<Standing<W>>;
}

interface Standing<W> extends Place<W> {
  readonly kind: Kind<W>;
  /** Tells the order of joining across kinds. */
  readonly arrival: number;
}

export function createWaitingLine<W>(): WaitingLine<W> {
  const kinds = createKinds<W>();
  /** Where each one stands; it counts in the first. */
  const standing = new Map<W, readonly Standing<W>[]>();

  return {
    stand(waiter, wishes) {
      const before = standing.get(waiter) ?? [];
      const placeFor = (wish: Wish): Standing<W> =>
        before.find(({ kind }) => isOfKind(wish, kind)) ?? kinds.enter(waiter, wish);
      const after = wishes.map(placeFor);
      const [left, came] = [before.filter(isNotIn(after)), after.filter(isNotIn(before))];
      const isChange = [...left, ...came].some((place) => headOf(place.kind) === place);
      left.forEach(kinds.give);
      after.forEach((place, index) => {
        if (index === 0) place.kind.guests.delete(place);
        else place.kind.guests.add(place);
      });
      standing.set(waiter, after);
      return isChange;
    },
    leave(waiter) {
      for (const place of standing.get(waiter) ?? []) kinds.give(place);
      return standing.delete(waiter);
    },
    has: (waiter) => standing.has(waiter),
    holds: (place) => standing.get(place.waiter)?.some((held) => held === place) ?? false,
    heads(mayGo) {
      const heads = kinds.all().flatMap((kind) => (mayGo(kind.priority) ? (headOf(kind) ?? []) : []));
      return heads.toSorted((a, b) => a.arrival - b.arrival);
    },
    queued: (viewpoint = {}) =>
      [...countsIn(kinds.all(), standing, viewpoint)].map(([{ app, priority }, length]) => ({
        app,
        priority,
        length,
      })),
    length(priority) {
      let length = 0;
      for (const kind of kinds.all()) {
        if (kind.priority === priority) length += kind.places.size - kind.guests.size;
      }
      return length;
    },
    isEmpty: () => standing.size === 0,
    all: () => [...standing.keys()],
    kinds: kinds.all,
    kindsOf: (waiter) => standing.get(waiter)?.map(({ kind }) => kind) ?? [],
  };
}

interface Kinds<W> {
  /** Has a waiter stand at the end of the wish's kind. */
  readonly enter: (waiter: W, wish: Wish) => Standing<W>;
  readonly give: (place: Standing<W>) => void;
  /** Those that somebody stands in. */
  readonly all: () => readonly Kind<W>[];
}

function createKinds<W>(): Kinds<W> {
  const kinds = new Map<string, Kind<W>>();
  let arrived = 0;
  const nameOf = ({ app, priority, resource }: Candidate): string => `${app} ${priority} ${resource}`;
  return {
    enter(waiter, wish) {
      const { app, priority, resource } = wish;
      const name = nameOf(wish);
      const kind = kinds.get(name) ?? { app, priority, resource, places: new Set(), guests: new Set() };
      const place = { waiter, wish, kind, arrival: arrived++ };
      kind.places.add(place);
      kinds.set(name, kind);
      return place;
    },
    give(place) {
      const { kind } = place;
      kind.places.delete(place);
      kind.guests.delete(place);
      if (kind.places.size === 0) kinds.delete(nameOf(kind));
    },
    all: () => [...kinds.values()],
  };
}

/** How many count in each kind. */
function countsIn<W>(
  kinds: readonly Kind<W>[],
  standing: ReadonlyMap<W, readonly Standing<W>[]>,
  { app, without }: Viewpoint<W>,
): ReadonlyMap<Kind<W>, number> {
  const counts = new Map(kinds.map((kind) => [kind, kind.places.size - kind.guests.size]));
  const count = (kind: Kind<W> | undefined, by: number): void => {
    if (kind !== undefined) counts.set(kind, (counts.get(kind) ?? 0) + by);
  };
  const homeOf = (waiter: W): Kind<W> | undefined => standing.get(waiter)?.[0]?.kind;
  for (const kind of kinds) {
    if (kind.app !== app) continue;
    count(kind, kind.guests.size);
    for (const { waiter } of kind.guests) count(homeOf(waiter), -1);
  }
  if (without !== undefined) {
    const own = standing.get(without)?.find(({ kind }) => kind.app === app)?.kind;
    count(own ?? homeOf(without), -1);
  }
  return counts;
}

function headOf<W>({ places }: Kind<W>): Standing<W> | undefined {
  const [first] = places;
  return first;
}

function isOfKind(wish: Wish, { app, priority, resource }: Candidate): boolean {
  return wish.app === app && wish.priority === priority && wish.resource === resource;
}

function isNotIn<T>(list: readonly T[]): (element: T) => boolean {
  return (element) => !list.includes(element);
}

/**
 * Those who wait for their turn, by app, priority and resource: first come, first served within each;
 * whose turn it is among them is for the allowance to say.
 */
import type { Priority } from "../exchange.ts";
import type { Wish } from "./allowance.ts";
import type { Queued } from "./queued.ts";

/** One in the line. */
export interface InLine {
  readonly wish: Wish;
}

export interface WaitingLine<W extends InLine> {
  /** @returns whether it is the first of its kind, so that whose turn is next may have changed */
  readonly join: (waiter: W) => boolean;
  /** @returns whether it was still there */
  readonly leave: (waiter: W) => boolean;
  readonly has: (waiter: W) => boolean;
  /** The first of each kind, in the order in which they came. */
  readonly heads: (mayGo: (priority: Priority) => boolean) => readonly W[];
  /**
   * How many wait, by kind.
   * @param without one in the line that is not to count
   */
  readonly queued: (without?: W) => readonly Queued[];
  readonly length: (priority: Priority) => number;
  readonly isEmpty: () => boolean;
  /** Everyone, in no order. */
  readonly all: () => readonly W[];
}

export function createWaitingLine<W extends InLine>(): WaitingLine<W> {
  /** Sets keep the order of joining; a number per waiter tells it across kinds. */
  const kinds = new Map<string, Set<W>>();
  const arrivals = new WeakMap<W, number>();
  let arrived = 0;

  const kindOf = ({ app, priority, resource }: Wish): string => `${app} ${priority} ${resource}`;

  return {
    join(waiter) {
      const name = kindOf(waiter.wish);
      const kind = kinds.get(name) ?? new Set();
      kinds.set(name, kind.add(waiter));
      arrivals.set(waiter, arrived++);
      return kind.size === 1;
    },
    leave(waiter) {
      const name = kindOf(waiter.wish);
      const kind = kinds.get(name);
      const wasThere = kind?.delete(waiter) ?? false;
      if (kind?.size === 0) kinds.delete(name);
      return wasThere;
    },
    has: (waiter) => kinds.get(kindOf(waiter.wish))?.has(waiter) ?? false,
    heads(mayGo) {
      const heads: W[] = [];
      for (const kind of kinds.values()) {
        const [first] = kind;
        if (first !== undefined && mayGo(first.wish.priority)) heads.push(first);
      }
      return heads.toSorted((a, b) => (arrivals.get(a) ?? 0) - (arrivals.get(b) ?? 0));
    },
    queued(without) {
      const queued: Queued[] = [];
      for (const kind of kinds.values()) {
        const [first] = kind;
        if (first === undefined) continue;
        const { app, priority } = first.wish;
        const counted = without !== undefined && kind.has(without) ? kind.size - 1 : kind.size;
        queued.push({ app, priority, length: counted });
      }
      return queued;
    },
    length(priority) {
      let length = 0;
      for (const kind of kinds.values()) {
        const [first] = kind;
        if (first?.wish.priority === priority) length += kind.size;
      }
      return length;
    },
    isEmpty: () => kinds.size === 0,
    all: () => [...kinds.values()].flatMap((kind) => [...kind]),
  };
}

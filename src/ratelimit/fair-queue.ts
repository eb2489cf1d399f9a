/**
 * Calls that wait, in one queue for each app, priority and resource. Each queue is first in, first out.
 *
 * A call that several apps wait for is in the queue of each app, and leaves all of them together. It counts only in the
 * first one.
 */
import type { Resource } from "../interface/resources.ts";
import type { Priority } from "../types.ts";
import type { WaitingApp } from "./limiter.ts";

export interface QueueKind {
  readonly app: string;
  readonly priority: Priority;
  readonly resource: Resource;
}

/** The first call of a queue. */
export interface Head<E> extends QueueKind {
  readonly entry: E;
}

export interface FairQueue<E> {
  /** Puts a call into these queues, at the end where it is new, and removes it from all others. */
  readonly put: (entry: E, kinds: readonly QueueKind[]) => void;
  /** @returns whether the call was in a queue */
  readonly remove: (entry: E) => boolean;
  readonly has: (entry: E) => boolean;
  readonly heads: () => readonly Head<E>[];
  readonly entries: () => readonly E[];
  /** How many calls wait, by app and priority. @param except a call that does not count */
  readonly counts: (except?: E) => readonly WaitingApp[];
  readonly isEmpty: () => boolean;
  /** How many calls wait. */
  readonly size: () => number;
}

export function createFairQueue<E>(): FairQueue<E> {
  /** By name of the kind. A set keeps the order of insertion. */
  const queues = new Map<string, { readonly kind: QueueKind; readonly entries: Set<E> }>();
  const namesOf = new Map<E, readonly string[]>();
  /** How many calls have this kind as their first. */
  const counted = new Map<string, { readonly kind: QueueKind; readonly count: number }>();

  function count(name: string | undefined, by: 1 | -1, kind: QueueKind | undefined): void {
    const known = name === undefined ? undefined : counted.get(name);
    const of = known?.kind ?? kind;
    if (name === undefined || of === undefined) return;
    const sum = (known?.count ?? 0) + by;
    if (sum > 0) counted.set(name, { kind: of, count: sum });
    else counted.delete(name);
  }

  function enter(entry: E, kind: QueueKind, name: string): void {
    const queue = queues.get(name) ?? { kind, entries: new Set<E>() };
    queue.entries.add(entry);
    queues.set(name, queue);
  }
  function leave(entry: E, name: string): void {
    const entries = queues.get(name)?.entries;
    entries?.delete(entry);
    if (entries?.size === 0) queues.delete(name);
  }

  return {
    put(entry, kinds) {
      const names = kinds.map(nameOf);
      for (const name of namesOf.get(entry) ?? []) if (!names.includes(name)) leave(entry, name);
      for (const [index, kind] of kinds.entries()) enter(entry, kind, names[index] ?? "");
      count(namesOf.get(entry)?.[0], -1, undefined);
      count(names[0], 1, kinds[0]);
      namesOf.set(entry, names);
    },
    remove(entry) {
      count(namesOf.get(entry)?.[0], -1, undefined);
      for (const name of namesOf.get(entry) ?? []) leave(entry, name);
      return namesOf.delete(entry);
    },
    has: (entry) => namesOf.has(entry),
    heads: () =>
      [...queues.values()].flatMap(({ kind, entries }) => {
        const [entry] = entries;
        return entry === undefined ? [] : [{ ...kind, entry }];
      }),
    entries: () => [...namesOf.keys()],
    counts(except) {
      const excepted = except === undefined ? undefined : namesOf.get(except)?.[0];
      const sums = new Map<string, WaitingApp>();
      for (const [name, { kind, count: all }] of counted) {
        const { app, priority } = kind;
        const key = `${priority} ${app}`;
        const here = name === excepted ? all - 1 : all;
        sums.set(key, { app, priority, count: (sums.get(key)?.count ?? 0) + here });
      }
      return [...sums.values()].filter((sum) => sum.count > 0);
    },
    isEmpty: () => namesOf.size === 0,
    size: () => namesOf.size,
  };
}

function nameOf({ app, priority, resource }: QueueKind): string {
  return `${priority} ${resource} ${app}`;
}

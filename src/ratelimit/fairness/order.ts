/** The waiting calls, and which of them goes next. Pure. docs/fairness.md explains the rules. */
import type { Resource } from "../../interface/resources.ts";
import { PRIORITIES } from "../../telemetry/events.ts";
import { MOST_FREE_INSTANTS, type WaitingApp, type WindowState } from "../limiter.ts";
import { type AppCall, type Shares, sharesIn, type Situation } from "./shares.ts";

/** What a call is. A call that several apps wait for has one kind for each of them. */
export interface CallKind extends AppCall {
  readonly resource: Resource;
  /** Its caller came back when it was told to. */
  readonly isBack: boolean;
}

/** The first waiting call of a kind. */
export interface Head<E> extends CallKind {
  readonly entry: E;
}

export interface WaitingCalls<E> {
  /** Adds a call, or gives a waiting call other kinds. It keeps its place. The first kind counts. */
  readonly put: (entry: E, kinds: readonly CallKind[]) => void;
  /** @returns whether it waited */
  readonly remove: (entry: E) => boolean;
  readonly has: (entry: E) => boolean;
  /** The first call of each kind, in the order in which they were added. */
  readonly heads: () => readonly Head<E>[];
  readonly entries: () => readonly E[];
  /** The number of waiting calls by app and priority. */
  readonly counts: () => readonly WaitingApp[];
  readonly size: () => number;
}

export function createWaitingCalls<E>(): WaitingCalls<E> {
  const kindsOf = new Map<E, readonly CallKind[]>();
  const counted = new Map<string, WaitingApp>();

  function add(kind: CallKind | undefined, by: 1 | -1): void {
    if (kind === undefined) return;
    const { app, priority } = kind;
    const name = `${priority} ${app}`;
    const count = (counted.get(name)?.count ?? 0) + by;
    if (count > 0) counted.set(name, { app, priority, count });
    else counted.delete(name);
  }

  return {
    put(entry, kinds) {
      add(kindsOf.get(entry)?.[0], -1);
      add(kinds[0], 1);
      kindsOf.set(entry, kinds);
    },
    remove(entry) {
      add(kindsOf.get(entry)?.[0], -1);
      return kindsOf.delete(entry);
    },
    has: (entry) => kindsOf.has(entry),
    heads() {
      const heads = new Map<string, Head<E>>();
      for (const [entry, kinds] of kindsOf)
        for (const kind of kinds) {
          const name = `${kind.priority} ${kind.resource} ${kind.isBack} ${kind.app}`;
          if (!heads.has(name)) heads.set(name, { ...kind, entry });
        }
      return [...heads.values()];
    },
    entries: () => [...kindsOf.keys()],
    counts: () => [...counted.values()],
    size: () => kindsOf.size,
  };
}

export type Choice<C> =
  /** Request a permit for this call. */
  | { readonly kind: "ask"; readonly call: C; readonly leave: readonly number[] }
  | { readonly kind: "wait"; readonly until: number };

/** Chooses the call that goes next. */
export function choose<C extends CallKind>(situation: Situation, calls: readonly C[]): Choice<C> {
  const { state, inFlight, now } = situation;
  const shares = sharesIn(situation);
  let until = Number.POSITIVE_INFINITY;
  for (const call of inFairOrder(shares, calls)) {
    if (inFlight.remaining <= shares.leave(inFlight, call)) continue;
    const leave = state.windows.map((window) => shares.leave(window, call));
    const free = state.windows.map((window, index) => permitFreeAt(window, (leave[index] ?? 0) + 1, now));
    const at = Math.max(now, dayFreeAt(situation, call.app), ...free);
    if (at <= now) return { kind: "ask", call, leave };
    until = Math.min(until, at);
  }
  return { kind: "wait", until };
}

function inFairOrder<C extends CallKind>(shares: Shares, calls: readonly C[]): readonly C[] {
  const ranked = calls.map((call) => ({
    call,
    rank: [
      PRIORITIES.indexOf(call.priority),
      shares.isBeyond(call.app) || shares.isBeyondInFlight(call.app) ? 1 : 0,
      shares.usedPart(call.app),
      shares.isModest(call.app) ? 0 : 1,
      call.isBack ? 0 : 1,
    ],
  }));
  return ranked.toSorted((a, b) => compare(a.rank, b.rank)).map(({ call }) => call);
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const difference = value - (b[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** When an app's `perDay` allows its next call. */
export function dayFreeAt({ state, apps, now }: Situation, app: string): number {
  const today = state.today.get(app);
  const perDay = apps.perDayOf(app);
  return today !== undefined && perDay !== null && today.spent >= perDay ? today.nextFreeAt : now;
}

/**
 * When `wanted` permits of a window are free. Permits that are taken when they become free are free again a window later.
 * If not all instants are known, further permits become free at an even pace.
 */
export function permitFreeAt(
  { remaining, freeAt, limit, windowMs }: WindowState,
  wanted: number,
  now: number,
): number {
  const missing = wanted - remaining - 1;
  if (missing < 0) return now;
  const known = freeAt.length;
  const isAllKnown = known < MOST_FREE_INSTANTS && known > 0;
  const at = freeAt[isAllKnown ? missing % known : missing];
  if (at === undefined)
    return Math.max(now, freeAt.at(-1) ?? now) + ((missing - known + 1) * windowMs) / limit;
  return Math.max(now, at) + (isAllKnown ? Math.floor(missing / known) * windowMs : 0);
}

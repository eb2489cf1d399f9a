/** What a replica knows of the others, and what follows for what it may spend. */
import type { Terms } from "./arbiter.ts";
import { heldOf } from "./held.ts";
import type { Queued } from "./queued.ts";
import type { Window } from "./windows.ts";

export interface OthersOptions {
  readonly terms: Terms;
  /** Most replicas at once, as far as the settings know. */
  readonly replicas: number;
  readonly degradedShare: number;
  /** There are more replicas than the settings say. */
  readonly onTooMany: (replicas: number) => void;
  /** Something is no longer held back. */
  readonly onRelief: () => void;
}

export interface Others {
  /** @param askedOf the windows it was asked about */
  readonly learn: (
    others: { readonly live: number; readonly held: readonly number[]; readonly queued: readonly Queued[] },
    askedOf: readonly Window[],
  ) => void;
  /** Who waits for a place there. */
  readonly queued: () => readonly Queued[];
  /** It is not known how they are: all of them may have gone silent. */
  readonly unknown: () => void;
  /** The most replicas seen at once. */
  readonly mostSeen: () => number;
  /** For how many replicas that have gone silent something is held back, by window. */
  readonly held: () => readonly number[];
  /** The part of each window for this replica when it is cut off. */
  readonly share: () => number;
  /** The most that another one takes for its part: it may have seen fewer replicas at once. */
  readonly heldShare: () => number;
  /** How many sends may be entered that a replica does not know of; none where it is the only one. */
  readonly slack: () => number;
  /** What may be spent of a window while something is held back. */
  readonly limitOf: (window: Window) => number;
}

/** A twentieth of the smallest limit, so that catching up never holds up much. */
export function slackOf({ windows }: Terms): number {
  return Math.max(2, Math.floor(Math.min(...windows.map(({ limit }) => limit)) / 20));
}

export function createOthers(options: OthersOptions): Others {
  const { terms } = options;
  let mostSeen = 1;
  let held: readonly number[] = [];
  let queued: readonly Queued[] = [];
  let heldIn = terms.windows;
  const absentIn = (window: Window): number => heldOf(window, held, heldIn, terms.windows);
  const atMost = (): number => Math.max(options.replicas, mostSeen);
  const share = (): number => Math.min(options.degradedShare, 1 / atMost());
  const heldShare = (): number => Math.min(options.degradedShare, 1 / options.replicas);
  return {
    learn(others, askedOf) {
      if (others.live > atMost()) options.onTooMany(others.live);
      mostSeen = Math.max(mostSeen, others.live);
      const isRelief = others.held.some((count, index) => count < (held[index] ?? 0));
      ({ held, queued } = others);
      heldIn = askedOf;
      if (isRelief) options.onRelief();
    },
    unknown() {
      heldIn = terms.windows;
      held = heldIn.map(() => atMost() - 1);
      queued = [];
    },
    queued: () => queued,
    mostSeen: () => mostSeen,
    held: () => terms.windows.map(absentIn),
    share,
    heldShare,
    slack: () => (atMost() > 1 ? slackOf(terms) : 0),
    limitOf(window) {
      const absent = absentIn(window);
      const { limit } = window;
      return absent === 0 ? limit : limit - absent * Math.floor(limit * heldShare()) - slackOf(terms);
    },
  };
}

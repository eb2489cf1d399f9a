/** How the apps identify themselves and how old their cached answers were, in all processes. */
import type { Clock } from "../../process/clock.ts";
import type { AppIdentity } from "../../ratelimit/apps.ts";
import { type AgesByHour, agesBetween, type AgesServed } from "./served-ages.ts";
import { type Board, createPeers, type Scope } from "./peers.ts";

export interface CallersSeen {
  readonly scope: Scope;
  /** The number of processes that it was collected from. */
  readonly processes: number;
  /** Epoch milliseconds. Nothing is known about the time before. */
  readonly since: number;
  /** Epoch milliseconds. Before this instant, what other processes saw is missing. */
  readonly completeSince: number;
  readonly ages: AgesServed;
  readonly apps: readonly AppIdentity[];
}

export interface CallersSeenOptions {
  readonly identities: () => readonly AppIdentity[];
  readonly ages: () => AgesByHour;
  readonly clock: Clock;
  /** `undefined`: there are no other replicas. */
  readonly board: Board | undefined;
}

/** The version of a part's format. */
const FORM = 1;

/** @returns a function that reads what all processes know about a period. It never rejects. */
export function createCallersSeen(
  options: CallersSeenOptions,
): (from: number, to: number) => Promise<CallersSeen> {
  const { identities, ages, clock, board } = options;
  const own = () => ({ identities: identities(), ages: ages() });
  const look = createPeers({ board, clock, form: FORM, own });
  return async (from, to) => {
    const { scope, all } = await look();
    const counted = all.map((part) => part.ages);
    const begun = counted.map(({ since }) => since);
    return {
      scope,
      processes: all.length,
      since: Math.min(...begun),
      completeSince: Math.max(...begun),
      ages: agesBetween(counted, from, to),
      apps: firstOf(all.flatMap((part) => part.identities)),
    };
  };
}

/** @returns each app as it was seen first */
function firstOf(identities: readonly AppIdentity[]): readonly AppIdentity[] {
  const earliestFirst = identities.toSorted((a, b) => a.firstSeenAt - b.firstSeenAt);
  const apps = new Map<string, AppIdentity>();
  for (const identity of earliestFirst) if (!apps.has(identity.app)) apps.set(identity.app, identity);
  return [...apps.values()];
}

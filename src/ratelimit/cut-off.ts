/**
 * What a replica may spend while it cannot reach the shared budget: a share of what was left, as far as it
 * can be sure of it.
 *
 * At any time, a replica sends no more in a window than `share` of what the sends from before leave of it:
 * (limit - before) x share. What is from before only rolls out of the window, and there are at most 1/share
 * replicas, so all of them together never send more than limit - before. What a replica may not know of,
 * it counts as sent: `slack` sends that may have been entered since it last heard (the shared budget enters
 * no more before every replica knows), and the share of those that had gone silent by then.
 */
import type { Candidate, Decision, Standing, Terms } from "./arbiter.ts";
import { decide, newStanding } from "./arbiter.ts";
import { heldOf } from "./held.ts";
import { keptMs, spentIn, tidyPlaces, type Window } from "./windows.ts";

/** How things stood when the shared budget was last reached. */
export interface LastKnown {
  /** By the monotonic clock; minus infinity where it was never reached. */
  readonly at: number;
  /** Replicas that had gone silent and were reckoned with, by window. */
  readonly held: readonly number[];
  /** The part of each window for one replica. */
  readonly share: number;
  /** The most that one of those takes for its part. */
  readonly heldShare: number;
  /** Sends that may not be known of: none where there is no other replica. */
  readonly slack: number;
}

/** Where nothing is known to come free, it is looked at again after so long. */
const LOOK_AGAIN_MS = 1_000;

export interface CutOff {
  readonly standing: Standing;
  readonly limitOf: (window: Window) => number;
  readonly terms: () => Terms;
  readonly decide: (idOf: (app: string) => string, candidates: readonly Candidate[]) => Decision;
}

/** @param before what was sent until then, all replicas' sends */
export function createCutOff(
  before: Standing,
  terms: Terms,
  { at, held, share, heldShare, slack }: LastKnown,
  now: () => number,
): CutOff {
  const standing = newStanding();
  const heldIn = terms.windows;
  for (const [scope, circuit] of before.circuits)
    standing.circuits.set(scope, { ...circuit, probe: undefined });

  /** Until then what is not known of may count: it was entered by then, and can have arrived a lease later. */
  const knownAgainAt = ({ windowMs }: Window): number => at + terms.leaseMs + windowMs;

  /** What may have been sent from before, at the most. */
  function sentBefore(window: Window): number {
    tidyPlaces(before.places, keptMs(terms.windows), now());
    const unknown = now() <= knownAgainAt(window) ? slack : 0;
    const absent = heldOf(window, held, heldIn, terms.windows);
    return (
      spentIn(before.places, window.windowMs, now()) + unknown + absent * Math.floor(window.limit * heldShare)
    );
  }

  const limitOf = (window: Window): number =>
    Math.max(0, Math.floor((window.limit - sentBefore(window)) * share));

  /** An app's limit for a day shrinks like the windows do. */
  function currentTerms(): Terms {
    const apps = [...terms.apps].map(([app, { weight, perDay }]) => {
      const all = before.apps.get(app)?.all;
      const spent = all === undefined ? 0 : spentIn(all, 86_400_000, now());
      const left = perDay === null ? null : Math.max(0, Math.floor((perDay - spent) * share));
      return [app, { weight, perDay: left }] as const;
    });
    return { ...terms, apps: new Map(apps) };
  }

  /** The next instant at which less is from before. */
  function nextRelief(): number {
    const { arrived, first } = before.places;
    const instants = terms.windows.flatMap((window) => {
      const { windowMs } = window;
      const oldest = arrived.slice(first).find((sentAt) => sentAt >= now() - windowMs);
      return [knownAgainAt(window) + 1, ...(oldest === undefined ? [] : [oldest + windowMs + 1])];
    });
    return Math.min(now() + LOOK_AGAIN_MS, ...instants.filter((instant) => instant > now()));
  }

  return {
    standing,
    limitOf,
    terms: currentTerms,
    decide(idOf, candidates) {
      const decision = decide(standing, currentTerms(), { idOf, candidates }, now(), limitOf);
      return decision.kind === "wait" ? { kind: "wait", at: Math.min(decision.at, nextRelief()) } : decision;
    },
  };
}

/**
 * The port of an origin's budget: whoever decides about it, this process alone or a script that all
 * replicas share. All times are milliseconds from now; a place is taken before a send goes and settled
 * after it.
 */
import type { Cause, CircuitState, SendEnd } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import type { Candidate, Hindrance } from "./arbiter.ts";
import type { Queued } from "./queued.ts";
import type { Window } from "./windows.ts";

/** One who wants to send, with what the ledger is to say of it. */
export interface Wish extends Candidate {
  readonly cause: Cause;
  /** Hash of the canonical query. */
  readonly query: string;
}

/** A place, and who it is for. */
export interface Grant {
  readonly id: string;
  readonly wish: Wish;
}

export type Taken =
  | { readonly kind: "granted"; readonly grant: Grant }
  /** Ask again after so long, or when told that something has changed. */
  | { readonly kind: "wait"; readonly forMs: number };

/** How long a wish would wait, and for what. */
export interface Expectation {
  readonly forMs: number;
  readonly why: Hindrance;
  /** The app has used up its share while others want theirs. */
  readonly isOverShare: boolean;
}

/** Those of this process who wait for a place. */
export interface Line {
  readonly queued: () => readonly Queued[];
  /** It may be worth asking before the time that `take` named, or a wait has become longer. */
  readonly changed: () => void;
}

export interface Allowance {
  /** Takes a place for the one of the wishes whose turn it is. Never rejects. */
  readonly take: (wishes: readonly Wish[]) => Promise<Taken>;
  /** Takes a place whatever the limits say: where the budget is only watched. */
  readonly takeAnyway: (wish: Wish) => Promise<Grant>;
  /** A send has ended. */
  readonly settle: (grant: Grant, end: SendEnd) => void;
  /** A place was not used: nothing was sent. */
  readonly giveBack: (grant: Grant) => void;
  /** How long a candidate would wait that came after those who wait here, and elsewhere. */
  readonly expect: (candidate: Candidate, queued: readonly Queued[]) => Expectation;
  readonly attach: (line: Line) => void;
  readonly overview: () => Overview;
  /** What an app has left of its share of each window, and of its limit for a day. */
  readonly shareOf: (app: string) => readonly ShareOfWindow[];
  /** Settles what can be settled and stops; never rejects. */
  readonly close: () => Promise<void>;
}

/** An app's share of a window. */
export interface ShareOfWindow {
  readonly name: string;
  readonly limit: number;
  readonly windowSeconds: number;
  readonly remaining: number;
  /** Until some of it is free again. */
  readonly resetSeconds: number;
}

/** How an origin's budget stands. */
export interface Overview {
  /**
   * `alone`: this process' own, with those on its file; `shared`: with all replicas, or about to be (`joining`); `cut-off`: a safe part of
   * what should be shared.
   */
  readonly mode: "alone" | "joining" | "shared" | "cut-off";
  readonly windows: readonly (Window & {
    readonly spent: number;
    readonly remaining: number;
    /** Kept back for replicas that have gone silent. */
    readonly heldBack: number;
    /** Sends that count in this window, by app. */
    readonly byApp: Readonly<Record<string, number>>;
  })[];
  readonly circuits: readonly {
    readonly scope: "origin" | Resource;
    readonly state: CircuitState;
    readonly cause: string;
    /** Until requests go again. */
    readonly forMs: number;
  }[];
}

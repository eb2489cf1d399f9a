/**
 * The port of a budget that replicas share, as one of them sees it: one place, which decides atomically,
 * keeps the time, and remembers. Behind it are the scripts in lua/; each operation rejects where it cannot
 * be reached.
 */
import type { SlowDownCause } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import type { Wish } from "./allowance.ts";
import type { Queued } from "./queued.ts";

/** Who asks. */
export interface Asker {
  readonly replica: string;
  /** The generation it has joined. */
  readonly gen: string;
  /** It knows of the sends up to this number. */
  readonly known: number;
  /** The most replicas it has seen at once. */
  readonly mostSeen: number;
  /** Who waits for a place there; absent where it is being asked for one of them, and that says it. */
  readonly queued: readonly Queued[] | undefined;
}

export interface TakeRequest extends Asker {
  /** Of the send; the shared budget appends `@` and the app. */
  readonly id: string;
  readonly wishes: readonly Wish[];
  /** Whatever the limits say. */
  readonly anyway: boolean;
  /** The part of each window that a replica uses when it is cut off. */
  readonly share: number;
  /** When to ask again where others first have to catch up. */
  readonly catchUpMs: number;
}

/** Everybody who joined an earlier generation has to join anew. */
export interface Lost {
  readonly kind: "lost";
}

/**
 * How many replicas there are, and, by window, how many may be sending by themselves: those that have gone
 * silent, for whom something is held back, and those that have not caught up with what others brought.
 */
interface Others {
  /** Who waits for a place at other replicas. */
  readonly queued: readonly Queued[];
  readonly live: number;
  readonly held: readonly number[];
}

export type TakeReply =
  | Lost
  | ({
      readonly kind: "granted";
      readonly index: number;
      readonly id: string;
      readonly seq: number;
      /** Of its app's own share; else it is borrowed. */
      readonly isOwn: boolean;
    } & Others)
  | ({
      readonly kind: "wait";
      readonly forMs: number;
      readonly why: "place" | "news";
      readonly apps: readonly SharedApp[];
    } & Others);

/** How a send ended. */
export interface EndReport {
  readonly id: string;
  readonly app: string;
  readonly resource: Resource;
  readonly status: string;
  readonly durationMs: number;
  readonly sinceArrivalMs: number;
  readonly isUnsent: boolean;
  /** An answer came that does not ask to slow down. */
  readonly isAnswered: boolean;
  readonly slowDown: { readonly cause: SlowDownCause; readonly forMs: number | undefined } | undefined;
}

/** A circuit, in milliseconds from now. */
export interface SharedCircuit {
  readonly scope: "origin" | Resource;
  readonly cause: SlowDownCause;
  readonly coolOffMs: number;
  readonly openForMs: number;
  readonly probe: string;
  readonly probeForMs: number;
}

/** An app that has asked, in milliseconds ago. */
export interface SharedApp {
  readonly app: string;
  readonly askedMs: number;
  /** Since it last took more than its share; absent where it never did. */
  readonly borrowedMs?: number;
}

/** A send that was entered. */
export interface EnteredSend {
  readonly id: string;
  /** How long ago it arrived; negative while it may still be on its way. */
  readonly ageMs: number;
  /** It counts to its app's own share. */
  readonly isOwn: boolean;
}

/** What happened, as it is told to all replicas, or read later. */
export type News =
  | ({
      readonly kind: "sent";
      /** Absent where it is read later. */
      readonly seq: number | undefined;
    } & EnteredSend)
  | { readonly kind: "settled"; readonly id: string; readonly ageMs: number; readonly isUnsent: boolean }
  | { readonly kind: "circuits"; readonly circuits: readonly SharedCircuit[] }
  | { readonly kind: "generation"; readonly gen: string }
  /** Something may be free earlier than was said. */
  | { readonly kind: "changed" };

export type LookReply =
  | Lost
  | ({
      readonly kind: "news";
      readonly seq: number;
      /** What happened after `after`, oldest first. */
      readonly news: readonly News[];
      /** Up to here. */
      readonly entry: string;
      readonly isAll: boolean;
      readonly circuits: readonly SharedCircuit[];
      readonly apps: readonly SharedApp[];
      readonly replicas: readonly string[];
    } & Others);

/** A send that a replica knows of. */
export interface KnownSend {
  readonly id: string;
  readonly ageMs: number;
  /** For the ledger, where it was sent while the replica was cut off. */
  readonly late?: {
    readonly wish: Wish;
    /** Under which it was allowed (`limitsText`). */
    readonly limits: string;
    readonly sentMs: number;
    readonly end: { readonly status: string; readonly durationMs: number } | undefined;
  };
}

export interface Joined {
  readonly gen: string;
  readonly seq: number;
  /** The last line of the ledger by then. */
  readonly entry: string;
  /** Every send that counts in a window, its own included. */
  readonly sends: readonly EnteredSend[];
}

export interface SharedBudget {
  readonly take: (request: TakeRequest) => Promise<TakeReply>;
  readonly settle: (
    asker: Asker,
    ends: readonly EndReport[],
  ) => Promise<Lost | { readonly kind: "settled"; readonly circuits: readonly SharedCircuit[] }>;
  /** Says that the replica is there and what it knows, and hears what it has missed. */
  readonly look: (asker: Asker, after: string) => Promise<LookReply>;
  /** Joins, and brings what is known. `others`: the replicas it knew. */
  readonly join: (
    replica: string,
    known: { readonly sends: readonly KnownSend[]; readonly others: readonly string[] },
  ) => Promise<Joined>;
  /** It stops, with nothing on its way. */
  readonly leave: (asker: Asker) => Promise<void>;
}

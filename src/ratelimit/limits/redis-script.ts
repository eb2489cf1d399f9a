/** The script of the shared purse (shared-purse.lua): its requests and its replies, and its keys. */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { RedisClient, RedisScripts } from "../../redis/connect.ts";
import type { Cause } from "../../telemetry/events.ts";
import type { OriginName } from "../../interface/resources.ts";
import type { LedgerCompletion } from "../../usage/ledger.ts";
import type { LimitReason, News } from "../limiter.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    sharedPurse(numberOfKeys: number, ...keysAndRequest: string[]): Result<string | null, Context>;
  }
}

export const PURSE_SCRIPTS: RedisScripts = {
  sharedPurse: { lua: readFileSync(new URL("./shared-purse.lua", import.meta.url), "utf8") },
};

/** Sends a command to Redis. Rejects when Redis does not answer, or refuses the command. */
export type RunLimiter = <T>(
  operation: "take" | "ledger",
  key: string,
  command: (client: RedisClient) => Promise<T>,
) => Promise<T>;

/** What the ledger records of a call. */
interface CallRecord {
  readonly resource: string;
  readonly cause: Cause;
  readonly query: string;
}

export interface Take extends CallRecord {
  readonly id: string;
  readonly app: string;
  /** Permits that the shared purse must keep after this one, the shortest window first. */
  readonly leave: readonly number[];
  readonly perDay: number | undefined;
  /** The app's calls of the day that this replica knows of. */
  readonly dayAtLeast: number;
  /** Granted also beyond the limits (`budget.mode: observe`). */
  readonly ignoresLimits: boolean;
}

/** A call that the own purse paid for. */
export interface OwnCall extends CallRecord {
  readonly id: string;
  readonly app: string;
  readonly slot: number;
  /** Time since the instant it counts from. */
  readonly ageMs: number;
  /** Time since its permit. */
  readonly sentMs: number;
  /** The app has a limit for the day. */
  readonly hasDay: boolean;
}

export interface EndedCall {
  readonly id: string;
  readonly app: string;
  /** Of the own purse that paid for it. */
  readonly slot: number | undefined;
  /** Time since its arrival. */
  readonly ageMs: number;
  readonly status: LedgerCompletion["status"];
  readonly durationMs: number;
}

/** All that a replica has to ask and to report. */
export interface Request {
  readonly process: string;
  /** Numbers the commands of this process. */
  readonly number: number;
  /** [5] The sequence number in the last reply. */
  readonly seen: number;
  /** [5] What counted in the shared purse then, by window, and how long ago that was. */
  readonly counts: Readonly<Record<string, number>>;
  readonly countsMs: number;
  /** [5] The sizes of the own purses in the last reply. */
  readonly knownPurses: PurseSizes | undefined;
  /** [6] The script's time, as the own clock shows it; absent before the first reply. */
  readonly time: number | undefined;
  /** [6] The command with which this process has joined, as far as it knows. */
  readonly joinedBy: number;
  /** The time of day of this machine. */
  readonly wall: number;
  /** The slot whose purse this process may spend, as far as it knows. */
  readonly slot: number | undefined;
  readonly isLeaving: boolean;
  readonly calls: readonly OwnCall[];
  readonly ended: readonly EndedCall[];
  readonly takes: readonly Take[];
  /** The calls that wait here; absent if that has not changed. */
  readonly waiting: readonly News[] | undefined;
  /** The reply says what waits at other replicas, and the script tidies up. */
  readonly isTick: boolean;
}

/** All that decides the sizes of own purses. */
interface PurseSizes {
  readonly name: string;
  readonly replicas: number;
  /** By the length of the window. */
  readonly own: Readonly<Record<string, number>>;
}

export type TakeResult =
  | { readonly isGranted: true }
  | { readonly isGranted?: false; readonly reason: LimitReason; readonly waitMs: number };

/** `late`: a later command of this process came first. */
export type Reply = { readonly kind: "late" } | Done;

export interface Done {
  readonly kind: "done";
  readonly time: number;
  readonly seq: number;
  /** Changes when data were lost. */
  readonly epoch: string;
  /** [6] This process only watches for now. */
  readonly isWatching: boolean;
  readonly joinedBy: number;
  /** [6] How far the script's time may be ahead: the largest value of all replicas. */
  readonly slackMs: number;
  readonly purses?: PurseSizes;
  readonly slot?: number;
  /** [4] What counts in the purse of the slot, if that is new to this process: the calls of all slots, and the debts. */
  readonly inherited?: {
    /** A slot, a blank and an id; the instant; and so on. */
    readonly calls: readonly string[];
    readonly debts: readonly { readonly ms: number; readonly count: number; readonly till: number }[];
  };
  readonly results: readonly TakeResult[];
  /** By window: what the shared purse has spent, what it has left, and what own purses have reported. */
  readonly windows: readonly (readonly [spent: number, left: number, own: number])[];
  readonly counts: Readonly<Record<string, number>>;
  /** The shared purse grants nothing for this long. */
  readonly closedMs: number;
  /** Replicas of version 0.2 may still send. */
  readonly isOldVersion?: boolean;
  /** What waits at each of the other replicas; in the reply to a tick. */
  readonly waiting?: readonly (readonly News[])[];
}

/** The keys of an origin. `namespace` is the prefix of all keys and the account's fingerprint. It has no braces. */
export function purseKeys(
  namespace: string,
  origin: OriginName,
): { readonly prefix: string; readonly state: string; readonly ledger: string; readonly all: string[] } {
  const prefix = `${namespace}{limiter:${origin}}:`;
  const names = ["purses", "shared", "own", "queues", "ledger", "state", "sends"];
  return {
    prefix,
    state: `${prefix}purses`,
    ledger: `${prefix}ledger`,
    all: names.map((name) => prefix + name),
  };
}

export interface RedisPurse {
  /** @param settings what each request carries: `TwoPurses.settings` */
  readonly ask: (request: Request, settings: object) => Promise<Reply>;
  /** Entries of the ledger after an id, oldest first, at most `most`. */
  readonly follow: (
    after: string,
    most: number,
  ) => Promise<readonly (readonly [id: string, fields: string[]])[]>;
  /** The slots that are not free. A pure read. */
  readonly slots: () => Promise<readonly ReplicaSlot[]>;
}

/** A slot, as operators see it. */
export interface ReplicaSlot {
  readonly slot: number;
  /** The process; empty if it has not returned since Redis lost data. */
  readonly holder: string;
  /** When the slot is free if it is not renewed. */
  readonly freeInMs: number;
}

/** A part of the script's state. */
interface StoredState {
  readonly time: number;
  /** The ledger is complete since this instant. */
  readonly since: number;
  readonly slots: readonly {
    readonly holder?: string;
    readonly isUnknown?: true;
    readonly renewedAt?: number;
    readonly holdMs?: number;
  }[];
}

/** Reads the script's state and changes nothing. @returns nothing if Redis has none */
export async function readState(
  run: RunLimiter,
  namespace: string,
  origin: OriginName,
): Promise<StoredState | undefined> {
  const { state, all } = purseKeys(namespace, origin);
  const text = await run("ledger", state, (client) => client.sharedPurse(all.length, ...all, ""));
  // Lua encodes an empty list as an empty object.
  return text === null ? undefined : JSON.parse(text.replaceAll("{}", "[]"));
}

export function createRedisPurse(run: RunLimiter, namespace: string, origin: OriginName): RedisPurse {
  const { prefix, state, ledger, all: keys } = purseKeys(namespace, origin);
  return {
    async ask(request, settings) {
      const text = JSON.stringify({ ...settings, ...request, prefix });
      const answer = await run("take", state, (client) => client.sharedPurse(keys.length, ...keys, text));
      // Lua encodes an empty list as an empty object.
      const reply: Reply = JSON.parse((answer ?? "").replaceAll("{}", "[]"));
      return reply;
    },
    follow: (after, most) =>
      run("ledger", ledger, (client) => client.xrange(ledger, `(${after}`, "+", "COUNT", most)),
    async slots() {
      const stored = await readState(run, namespace, origin);
      const { time = 0, slots = [] } = stored ?? {};
      return slots.flatMap(({ holder, isUnknown, renewedAt = time, holdMs = 0 }, index) =>
        holder !== undefined || isUnknown === true
          ? [{ slot: index + 1, holder: holder ?? "", freeInMs: Math.max(0, renewedAt + holdMs - time) }]
          : [],
      );
    },
  };
}

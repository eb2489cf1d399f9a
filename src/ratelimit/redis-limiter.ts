/**
 * The script of the hard limits (lua/limiter.lua): its requests and its replies. All keys of one origin are in one hash
 * slot of a Cluster.
 */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { RedisClient, RedisScripts } from "../redis/connect.ts";
import type { Cause, OriginName, Priority } from "../types.ts";
import type { LedgerCompletion } from "../usage/ledger.ts";
import type { EscrowWindow } from "./escrow.ts";
import type { LimitReason } from "./limiter.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    limitCalls(numberOfKeys: number, ...keysAndRequest: string[]): Result<string, Context>;
  }
}

export const LIMITER_SCRIPTS: RedisScripts = {
  limitCalls: { lua: readFileSync(new URL("./lua/limiter.lua", import.meta.url), "utf8") },
};

/** Sends a command to Redis. Rejects when Redis does not answer, or refuses the command. */
export type RunLimiter = <T>(
  operation: "take" | "ledger",
  key: string,
  command: (client: RedisClient) => Promise<T>,
) => Promise<T>;

/** What the ledger records of a call. */
export interface CallRecord {
  readonly resource: string;
  readonly cause: Cause;
  readonly query: string;
}

export interface Ended {
  readonly id: string;
  readonly app: string;
  /** Time since its arrival. */
  readonly ageMs: number;
  readonly status: LedgerCompletion["status"];
  readonly durationMs: number;
}

export interface Take extends CallRecord {
  readonly id: string;
  readonly app: string;
  readonly leave: readonly number[];
  readonly perDay: number | undefined;
  /** Granted also beyond the limits (`budget.mode: observe`). */
  readonly ignoresLimits: boolean;
}

/** A call that a replica uploads. */
export interface KnownSend {
  readonly id: string;
  readonly app: string;
  /** Time since the instant it counts from. */
  readonly ageMs: number;
  /** Redis knew it before it lost its data. */
  readonly wasKnown: boolean;
  /** For the ledger, if the call was sent without Redis. */
  readonly call?: CallRecord | undefined;
  /** Time since its permit. */
  readonly sentMs: number;
  readonly ended?: Omit<Ended, "id" | "app" | "ageMs"> | undefined;
}

/** The counts that this replica last received. */
export interface Digest {
  /** Redis' time then. */
  readonly time: number;
  /** The least time since then. */
  readonly elapsedMs: number;
  /** [age in milliseconds, calls of this age or older, up to the next age], the youngest first. */
  readonly counts: readonly (readonly [number, number])[];
  /** The most permits that Redis can have granted since. */
  readonly grantedSince: number;
}

/** What all requests have in common that can change something. */
export interface Common {
  /** The earliest that Redis' time can be now. [5] A command that arrives `timeoutMs` later has no effect. */
  readonly timeAtLeast: number | undefined;
  readonly epoch: string | undefined;
  readonly slot: number | undefined;
  readonly quotas: readonly number[];
}

export type Request =
  | { readonly kind: "time"; readonly timeAtLeast: number | undefined }
  | (Common & {
      readonly kind: "join" | "upload";
      readonly sends: readonly KnownSend[];
      /** The replica uploads all its calls, not only those that it sent without Redis. */
      readonly isFull: boolean;
      readonly digest: Digest | undefined;
      /** Redis' clock has jumped. */
      readonly hasJumped: boolean;
    })
  | (Common & {
      readonly kind: "sync";
      readonly ended: readonly Ended[];
      readonly takes: readonly Take[];
      readonly waiting: readonly (readonly [app: string, priority: Priority, count: number])[] | undefined;
      readonly isLeaving: boolean;
      readonly digestAges: readonly number[] | undefined;
      readonly wantsState: boolean;
      readonly perDay: readonly (readonly [app: string, limit: number])[];
    })
  | (Common & { readonly kind: "replicas"; readonly dead: string | undefined });

export type TakeResult =
  | { readonly isGranted: true }
  | { readonly isGranted?: false; readonly reason: LimitReason; readonly waitMs: number };

export interface DescribedState {
  readonly windows: readonly {
    readonly byApp: readonly (readonly [string, number])[];
    readonly freeIn: readonly number[];
  }[];
  readonly today: readonly (readonly [app: string, spent: number, inMs: number])[];
  readonly waiting: readonly (readonly (readonly [string, Priority, number])[])[];
}

/** A slot, as operators see it. */
export interface ReplicaSlot {
  readonly slot: number;
  /** The process; empty if it has not returned since a loss of data. */
  readonly holder: string;
  readonly isLive: boolean;
  /** When the slot is free, if it is not renewed. */
  readonly freeInMs: number;
}

export type Reply = { readonly time: number; readonly epoch: string } & (
  | { readonly kind: "time" | "late" | "lost" | "upload" | "uploaded" | "left" }
  | {
      readonly kind: "joined";
      readonly slot?: number;
      readonly isNew: boolean;
      readonly mayHaveOverrun: boolean;
    }
  | {
      readonly kind: "synced";
      readonly results: readonly TakeResult[];
      readonly quotas: readonly number[];
      readonly windows: readonly (readonly [spent: number, reserved: number])[];
      /** Redis grants nothing before, so that replicas that know more can report first. */
      readonly opensInMs: number;
      readonly digest?: readonly (readonly [number, number])[];
      readonly state?: DescribedState;
    }
  | { readonly kind: "replicas"; readonly replicas: readonly ReplicaSlot[] }
);

/** The settings in each request. */
export interface RequestSettings {
  readonly process: string;
  /** Only one process at a time has an address. So a new process with the same address proves that the old one is dead. */
  readonly address: string | undefined;
  readonly windows: readonly EscrowWindow[];
  readonly limits: string;
  readonly replicas: number;
  readonly leaseMs: number;
  readonly timeoutMs: number;
  /** From a grant until the latest arrival. */
  readonly countMs: number;
  /** From the end of a slot's lease until the latest arrival of a call that its holder sent without Redis. */
  readonly stopAfterMs: number;
  /** From that arrival until the slot is free: the longest short window. */
  readonly shortMs: number;
  /** When there are no data, Redis grants nothing for this long, so that replicas that know older data can report. */
  readonly settleMs: number;
  /** After a loss of data, the long windows wait at least this long for a replica that knows their counts. */
  readonly returnMs: number;
  /** The wait of a permit when the script does not know when one is free. */
  readonly pollMs: number;
  /** How long calls are kept. */
  readonly keepMs: number;
  readonly retentionMs: number;
  readonly maxRecords: number;
}

/** The script's keys. `namespace` is the prefix of all keys and the account's fingerprint. It has no braces. */
export function limiterKeys(
  namespace: string,
  origin: OriginName,
): { readonly prefix: string; readonly state: string; readonly ledger: string; readonly all: string[] } {
  const prefix = `${namespace}{limiter:${origin}}:`;
  const names = ["state", "sends", "guesses", "apps", "waiting", "ledger"];
  return {
    prefix,
    state: `${prefix}state`,
    ledger: `${prefix}ledger`,
    all: names.map((name) => prefix + name),
  };
}

export type AskRedis = (request: Request, settings: RequestSettings) => Promise<Reply>;

export function createRedisLimiter(run: RunLimiter, namespace: string, origin: OriginName): AskRedis {
  const { prefix, state, all: keys } = limiterKeys(namespace, origin);
  return async (request, settings) => {
    const text = JSON.stringify({ ...settings, ...request, prefix });
    const answer = await run("take", state, (client) => client.limitCalls(keys.length, ...keys, text));
    // Lua encodes an empty list as an empty object.
    const reply: Reply = JSON.parse(answer.replaceAll("{}", "[]"));
    return reply;
  };
}

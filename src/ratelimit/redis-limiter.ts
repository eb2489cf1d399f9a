/**
 * The script of the hard limits (lua/limiter.lua): what it is asked, and what it answers. One key slot of a Cluster
 * holds all keys of one origin.
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

/** Gives Redis a command. Rejects where Redis is out of order, or refuses. */
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
  /** How long ago it arrived. */
  readonly ageMs: number;
  readonly status: LedgerCompletion["status"];
  readonly durationMs: number;
}

export interface Take extends CallRecord {
  readonly id: string;
  readonly app: string;
  readonly leave: readonly number[];
  readonly perDay: number | undefined;
  /** Whatever the limits say. */
  readonly isAnyway: boolean;
}

export interface KnownSend {
  readonly id: string;
  readonly app: string;
  /** How long ago the instant is that it counts from. */
  readonly ageMs: number;
  /** Redis knew of it before it lost its data. */
  readonly wasTold: boolean;
  /** For the ledger, where it was sent without Redis. */
  readonly call?: CallRecord | undefined;
  readonly sentMs: number;
  readonly ended?: Omit<Ended, "id" | "app" | "ageMs"> | undefined;
}

/** What counted when this replica last heard. */
export interface Digest {
  /** Redis' time then. */
  readonly time: number;
  /** How long ago that was, at least. */
  readonly elapsedMs: number;
  /** [age in milliseconds, calls that are not younger], the youngest first. */
  readonly counts: readonly (readonly [number, number])[];
  /** The most that can have been granted since. */
  readonly since: number;
}

/** What all requests that can change something have in common. */
interface Common {
  /** Redis' time is this at least: [5] a message that arrives `timeoutMs` later has no effect. */
  readonly low: number | undefined;
  readonly epoch: string | undefined;
  readonly slot: number | undefined;
  readonly quotas: readonly number[];
}

export type Request =
  | { readonly kind: "time"; readonly low: number | undefined }
  | (Common & {
      readonly kind: "join" | "upload";
      readonly sends: readonly KnownSend[];
      /** All that this replica sent is told by now, not only what it sent without Redis. */
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
  | { readonly isGranted?: false; readonly reason: LimitReason; readonly inMs: number };

export interface DescribedState {
  readonly windows: readonly {
    readonly byApp: readonly (readonly [string, number])[];
    readonly freeIn: readonly number[];
  }[];
  readonly today: readonly (readonly [app: string, spent: number, inMs: number])[];
  readonly waiting: readonly (readonly (readonly [string, Priority, number])[])[];
}

export interface ReplicaSlot {
  readonly slot: number;
  /** The process; empty where it has not come back since a loss of data. */
  readonly holder: string;
  readonly isLive: boolean;
  /** A slot that is not renewed is free then. */
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
      /** Nobody is granted anything before: replicas that know of other data come first. */
      readonly opensInMs: number;
      readonly digest?: readonly (readonly [number, number])[];
      readonly state?: DescribedState;
    }
  | { readonly kind: "replicas"; readonly replicas: readonly ReplicaSlot[] }
);

/** What each request brings of the settings. */
export interface RequestSettings {
  readonly process: string;
  /** Only one process at a time can have it: the next one that has it proves that the last one is dead. */
  readonly address: string | undefined;
  readonly windows: readonly EscrowWindow[];
  readonly limits: string;
  readonly replicas: number;
  readonly leaseMs: number;
  readonly timeoutMs: number;
  /** From a grant until the latest arrival. */
  readonly countMs: number;
  /** From a slot's last lease until the latest arrival of what its holder sent by itself, */
  readonly aloneMs: number;
  /** and from then until the slot is free. */
  readonly shortMs: number;
  /** Nobody is granted anything for so long when there are no data: replicas that know of some come first. */
  readonly settleMs: number;
  /** After a loss, the long windows wait so long at least for a replica that knows them. */
  readonly returnMs: number;
  readonly pollMs: number;
  readonly keepMs: number;
  readonly retentionMs: number;
  readonly maxRecords: number;
}

/** The script's keys. `namespace` holds the prefix of all keys and the account's fingerprint, and has no braces. */
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
    // The script is the only one that writes it. Lua has no empty lists: they come as empty objects.
    const reply: Reply = JSON.parse(answer.replaceAll("{}", "[]"));
    return reply;
  };
}

/** The script of the shared purse (shared-purse.lua): its requests and its replies, and its keys. */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { OriginName } from "../../interface/resources.ts";
import type { RunOnRedis } from "../../redis/redis.ts";
import type { RedisScripts } from "../../redis/connect.ts";
import type { LimitReason, News, PermitRequest } from "../limiter.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    sharedPurse(numberOfKeys: number, ...keysAndRequest: string[]): Result<string | null, Context>;
  }
}

export const PURSE_SCRIPTS: RedisScripts = {
  sharedPurse: { lua: readFileSync(new URL("./shared-purse.lua", import.meta.url), "utf8") },
};

/** A request for a permit of the shared purse, with what the ledger records of the call. */
export interface Take extends Pick<PermitRequest, "app" | "resource" | "cause" | "query"> {
  readonly id: string;
  /** Permits that the shared purse must keep after this one, the shortest window first. */
  readonly leave: readonly number[];
  readonly perDay: number | undefined;
  /** The app's calls of the day that this replica knows of. */
  readonly dayAtLeast: number;
  /** Granted also beyond the limits (`budget.mode: observe`). */
  readonly ignoresLimits: boolean;
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
type Reply = { readonly kind: "late" } | Done;

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

/** The shared purse of an origin in Redis. Its methods reject when Redis does not answer, or refuses the command. */
export class RedisPurse {
  readonly #run: RunOnRedis;
  readonly #prefix: string;
  readonly #keys: readonly string[];

  /** @param namespace the prefix of all keys and the account's fingerprint. It has no braces. */
  constructor(run: RunOnRedis, namespace: string, origin: OriginName) {
    this.#run = run;
    this.#prefix = `${namespace}{limiter:${origin}}:`;
    const names = ["purses", "shared", "own", "queues", "ledger", "state", "sends"];
    this.#keys = names.map((name) => this.#prefix + name);
  }

  /** @param request what `SharedLimiter` has to ask and to report, with `TwoPurses.settings` */
  async ask(request: object): Promise<Reply> {
    const text = await this.#play("take", JSON.stringify({ ...request, prefix: this.#prefix }));
    const reply: Reply = JSON.parse(text);
    return reply;
  }

  /** Entries of the ledger, oldest first, at most `most`. The arguments are those of XRANGE. */
  readonly ledger = (start: string, end: string, most: number): Promise<[id: string, fields: string[]][]> => {
    const key = `${this.#prefix}ledger`;
    return this.#run("ledger", key, (client) => client.xrange(key, start, end, "COUNT", most));
  };

  /** The slots that are not free. */
  readonly slots = async (): Promise<readonly ReplicaSlot[]> => {
    const { time, slots } = await this.#state();
    return slots.flatMap(({ holder, isUnknown, renewedAt = time, holdMs = 0 }, index) =>
      holder !== undefined || isUnknown === true
        ? [{ slot: index + 1, holder: holder ?? "", freeInMs: Math.max(0, renewedAt + holdMs - time) }]
        : [],
    );
  };

  /** Since when the ledger is complete. */
  async completeSince(): Promise<number> {
    return (await this.#state()).since;
  }

  /** Reads the script's state and changes nothing. */
  async #state(): Promise<StoredState> {
    const state: StoredState | null = JSON.parse(await this.#play("ledger", ""));
    return state ?? { time: 0, since: 0, slots: [] };
  }

  async #play(operation: "take" | "ledger", request: string): Promise<string> {
    const reply = await this.#run(operation, `${this.#prefix}purses`, (client) =>
      client.sharedPurse(this.#keys.length, ...this.#keys, request),
    );
    // Lua encodes an empty list as an empty object.
    return (reply ?? "null").replaceAll("{}", "[]");
  }
}

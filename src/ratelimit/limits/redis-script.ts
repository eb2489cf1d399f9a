/** The script of the shared purse (shared-purse.lua): its requests and its replies, and its keys. */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { OriginName } from "../../interface/resources.ts";
import type { CommandTimeout } from "../../redis/command-timeout.ts";
import type { RunOnRedis } from "../../redis/redis.ts";
import type { RedisScripts } from "../../redis/connect.ts";
import { limitsText } from "../../usage/rate-window.ts";
import { type LedgerStream, readStream } from "../../usage/redis-ledger.ts";
import type { LimiterConfig, LimitReason, News } from "../limiter.ts";
import { purseName, type PurseSettings, type PurseWindow, ROUNDING_MS, SCRIPT_DRIFT } from "./purse-sizes.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    sharedPurse(numberOfKeys: number, ...keysAndRequest: string[]): Result<string | null, Context>;
  }
}

export const PURSE_SCRIPTS: RedisScripts = {
  sharedPurse: { lua: readFileSync(new URL("./shared-purse.lua", import.meta.url), "utf8") },
};

/** A replica sends a command at least this often. */
export const TICK_MS = 250;
/** A new process watches for this long. Other replicas send a command several times in this time. */
export const JOIN_MS = 2_000;

/** What decides how the script works. */
export interface ScriptOptions extends PurseSettings {
  /** A replica without Redis goes on for this long. */
  readonly degradedForMs: number;
  /** The timeout of the next command, and the longest one that any replica can have. */
  readonly timeout: Pick<CommandTimeout, "ms" | "mostMs">;
  readonly ledger: { readonly retentionMs: number; readonly maxRecords: number };
}

/** What each request to the script carries. */
export function scriptSettings(
  { arrivalMs }: LimiterConfig,
  windows: readonly PurseWindow[],
  { replicas, degradedForMs, ledger, timeout }: ScriptOptions,
): object {
  const own = Object.fromEntries(windows.map((window) => [String(window.windowMs), window.own]));
  return {
    ...ledger,
    windows,
    limits: limitsText(windows),
    purses: { name: purseName(windows, replicas), replicas, own },
    degradedForMs,
    drift: SCRIPT_DRIFT,
    // The clocks of two replicas may show times that differ by a tick and the time of two commands.
    slackMs: TICK_MS + 2 * timeout.ms() + 2 * ROUNDING_MS,
    // From a grant until the latest arrival of its call. The reply to the grant may take the whole timeout.
    countMs: arrivalMs + timeout.ms(),
    // The timeouts of other replicas may be longer. So their calls may count longer, and their clocks may differ more.
    unknownMs: 3 * (timeout.mostMs - timeout.ms()),
    joinMs: JOIN_MS,
  };
}

export interface Reply {
  readonly time: number;
  /** Changes when data were lost. */
  readonly epoch: string;
  /** This process only watches for now. */
  readonly isWatching: boolean;
  /** How far the script's time may be ahead: the largest value of all replicas. */
  readonly slackMs: number;
  /** What the script wants to hear in the next request. */
  readonly known: {
    /** The command with which this process has joined. */
    readonly joinedBy: number;
    /** The sizes of the own purses. */
    readonly purses?: { readonly name: string };
  };
  readonly slot?: number;
  /** The calls of all slots, if the purse of the slot is new to this process: a slot, a blank and an id; the instant; and so on. */
  readonly inherited?: readonly string[];
  /** One for each request for a permit. */
  readonly results: readonly ("granted" | LimitReason)[];
  /** By `windowMs`: what the shared purse has spent, what it has left, and what own purses have reported. */
  readonly windows: Readonly<Record<string, readonly [spent: number, left: number, own: number]>>;
  /** The shared purse grants nothing for this long. */
  readonly closedMs: number;
  /** What waits at each of the other replicas. Only in the reply to a tick. */
  readonly waiting?: readonly (readonly News[])[];
}

/** A reply that came in time, with the instants of its request and its arrival by the monotonic clock. */
export interface Heard extends Reply {
  readonly askedAt: number;
  readonly at: number;
}

/** A part of the script's state. */
interface StoredState {
  readonly time: number;
  /** The ledger is complete since this instant. */
  readonly since: number;
  /** Data were lost since the first epoch. */
  readonly hasLost?: true;
  readonly slots: readonly { holder?: string; renewedAt?: number; holdMs?: number }[];
}

/** The shared purse of an origin in Redis. Its methods reject when Redis does not answer, or refuses the command. */
export class RedisPurse implements LedgerStream {
  readonly #run: RunOnRedis;
  readonly #prefix: string;
  readonly #keys: readonly string[];

  /** @param namespace the prefix of all keys and the account's fingerprint. It has no braces. */
  constructor(run: RunOnRedis, namespace: string, origin: OriginName) {
    this.#run = run;
    this.#prefix = `${namespace}{limiter:${origin}}:`;
    const names = ["purses", "shared", "own", "queues", "ledger", "state"];
    this.#keys = names.map((name) => this.#prefix + name);
  }

  /**
   * @param request what `SharedLimiter` has to ask and to report
   * @returns nothing if a later command of this process came first
   */
  readonly ask = async (request: object): Promise<Reply | null> =>
    JSON.parse(await this.#play("take", JSON.stringify({ ...request, prefix: this.#prefix })));

  readonly ledger: LedgerStream["ledger"] = (start, end) =>
    readStream(this.#run, `${this.#prefix}ledger`, start, end);

  /**
   * The slots that are not free, for operators. `holder`: the process; empty if it has not returned since Redis lost data.
   * `freeInMs`: the time until the slot is free if it is not renewed.
   */
  readonly slots = async (): Promise<readonly object[]> => {
    const { time, slots } = await this.#state();
    return slots.flatMap(({ holder, renewedAt = time, holdMs = 0 }, index) =>
      holder === undefined
        ? []
        : [{ slot: index + 1, holder, freeInMs: Math.max(0, renewedAt + holdMs - time) }],
    );
  };

  readonly completeness: LedgerStream["completeness"] = async () => {
    const { since, hasLost = false } = await this.#state();
    return { since, hasLost };
  };

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

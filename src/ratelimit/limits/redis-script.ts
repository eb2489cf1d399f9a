/** The script of the shared purse (shared-purse.lua): its requests and its replies, and its keys. */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { OriginName } from "../../interface/resources.ts";
import type { CommandTimeout } from "../../redis/command-timeout.ts";
import type { RunOnRedis } from "../../redis/redis.ts";
import type { RedisClient, RedisScripts } from "../../redis/connect.ts";
import { limitsText } from "../../usage/rate-window.ts";
import type { LimiterConfig, LimitReason, News } from "../limiter.ts";
import { type Debt, keptMs } from "./purse-in-memory.ts";
import { DRIFT, purseName, type PurseSettings, pursesOf, ROUNDING_MS } from "./purse-sizes.ts";

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
/** [6] A new process watches for this long. Other replicas send a command several times in this time. */
export const JOIN_MS = 2_000;

/** What decides how the script works. */
export interface ScriptOptions extends PurseSettings {
  /** [3] A replica without Redis goes on for this long. */
  readonly degradedForMs: number;
  /** The timeout of the next command, and the longest one that any replica can have. */
  readonly timeout: Pick<CommandTimeout, "ms" | "mostMs">;
  readonly ledger: { readonly retentionMs: number; readonly maxRecords: number };
}

/** What each request to the script carries. */
export function scriptSettings(config: LimiterConfig, options: ScriptOptions): object {
  const { replicas, degradedForMs, ledger, timeout } = options;
  const windows = pursesOf(config.windows, options);
  const [shortest, ...longer] = windows;
  const shortMs = shortest?.ms ?? 0;
  const drift = 3 * DRIFT;
  // From a grant until the latest arrival of its call. The reply to the grant may take the whole timeout.
  const countMs = config.arrivalMs + timeout.ms();
  const mostOften = (shortest?.own ?? 0) * (Math.ceil(degradedForMs / shortMs) + 2);
  const own = Object.fromEntries(windows.map((window) => [String(window.ms), window.own]));
  return {
    windows,
    limits: limitsText(config.windows),
    purses: { name: purseName(config.windows, options), replicas, own },
    drift,
    // [6] The clocks of two replicas may show times that differ by a tick and the time of two commands.
    slackMs: TICK_MS + 2 * timeout.ms() + 2 * ROUNDING_MS,
    countMs,
    // [5] The timeouts of other replicas may be longer. So their calls may count longer, and their clocks may differ more.
    unknownMs: 3 * (timeout.mostMs - timeout.ms()),
    // [3] A slot that was not renewed for this long is free. The script adds the slack.
    holdMs: Math.ceil((degradedForMs + shortMs + countMs) * (1 + drift)),
    // [4] The most that its holder can have spent in the longer windows after its last report.
    most: longer.map((window) => ({ ms: window.ms, count: Math.min(window.own, mostOften) })),
    joinMs: JOIN_MS,
    tickMs: TICK_MS,
    // How long calls are kept. The script adds the slack.
    keepMs: Math.ceil(keptMs(config.windows) * (1 + 2 * drift)) + countMs,
    ...ledger,
  };
}

/** Entries of the ledger in one reply. */
const MOST_AT_ONCE = 500;

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
  /** The sizes of the own purses, for the next request. */
  readonly purses?: object;
  readonly slot?: number;
  /** [4] What counts in the purse of the slot, if that is new to this process: the calls of all slots, and the debts. */
  readonly inherited?: {
    /** A slot, a blank and an id; the instant; and so on. */
    readonly calls: readonly string[];
    readonly debts: readonly Debt[];
  };
  /** One for each request for a permit. If it was not granted, a new request makes sense after `waitMs`. */
  readonly results: readonly { isGranted?: true; reason?: LimitReason; waitMs?: number }[];
  /** By window: what the shared purse has spent, what it has left, and what own purses have reported. */
  readonly windows: readonly (readonly [spent: number, left: number, own: number])[];
  readonly counts: Readonly<Record<string, number>>;
  /** The shared purse grants nothing for this long. */
  readonly closedMs: number;
  /** Replicas of version 0.2 may still send. */
  readonly isOldVersion?: boolean;
  /** What waits at each of the other replicas. Only in the reply to a tick. */
  readonly waiting?: readonly (readonly News[])[];
}

/** A reply that came in time, with the instants of its request and its arrival by the monotonic clock. */
export interface Heard extends Done {
  readonly askedAt: number;
  readonly at: number;
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
  readonly slots: readonly { holder?: string; isUnknown?: true; renewedAt?: number; holdMs?: number }[];
}

/** An entry of the ledger: its place, and its fields by name. */
export interface StreamEntry {
  readonly at: string;
  readonly fields: Readonly<Record<string, string | undefined>>;
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

  /** @param request what `SharedLimiter` has to ask and to report */
  async ask(request: object): Promise<Reply> {
    const text = await this.#play("take", JSON.stringify({ ...request, prefix: this.#prefix }));
    const reply: Reply = JSON.parse(text);
    return reply;
  }

  /** Reads the ledger in parts, oldest entry first. The arguments are those of XRANGE. */
  async *ledger(start: string, end: string): AsyncIterable<readonly StreamEntry[]> {
    const key = `${this.#prefix}ledger`;
    let from = start;
    for (let count = MOST_AT_ONCE; count === MOST_AT_ONCE;) {
      const command = (client: RedisClient) => client.xrange(key, from, end, "COUNT", MOST_AT_ONCE);
      const entries = await this.#run("ledger", key, command);
      yield entries.map(([at, flat]) => ({ at, fields: fieldsIn(flat) }));
      count = entries.length;
      from = `(${entries.at(-1)?.[0]}`;
    }
  }

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

/** Turns the flat list of a stream entry's fields into a record. */
function fieldsIn(flat: readonly string[]): StreamEntry["fields"] {
  return Object.fromEntries(flat.flatMap((name, at) => (at % 2 === 0 ? [[name, flat[at + 1]]] : [])));
}

/** The app at the end of an id. */
export function appIn(id: string): string {
  return id.slice(id.lastIndexOf("@") + 1);
}

/**
 * Claims among replicas, as leases in Redis.
 *
 * A claim is a key with the name of its holder as value. It expires unless the holder renews it, so a holder that dies blocks
 * a key for at most one lease. If another replica holds the claim, a replica waits for the message that the flight has ended.
 * It remembers the latest messages, so it cannot miss one that arrives before the reply to its claim. The message names the
 * holder, so it cannot be confused with the end of an earlier flight.
 *
 * The commands are not one atomic step. If a lease expires between two of them, two replicas may fetch the same key.
 */
import { LRUCache } from "lru-cache";

import { Problem } from "../errors.ts";
import { every, pause } from "../process/clock.ts";
import { keyIn } from "../query/key.ts";
import type { RedisService } from "../redis/redis.ts";

const LEASE_MS = 3_000;
const RENEW_MS = 1_000;
/** Added to a lease, so that it has certainly expired. */
const LEASE_SLACK_MS = 10;

/**
 * The problem with which a flight ended, for all replicas, because otherwise each replica would call a failing upstream.
 * `undefined`: the entry is in the shared store, unless the leader withdrew or died. A replica that still needs the answer
 * claims the key again.
 */
export type Failure = Problem | undefined;

/** The result of claiming a key: the right to fetch it, or a wait for the replica that has this right. */
export type Claim =
  /** `release` never rejects. */
  | { readonly kind: "leader"; readonly release: (failure: Failure) => Promise<void> }
  /** `ended` resolves with the leader's message, or when its lease has expired. It never rejects. */
  | { readonly kind: "follower"; readonly ended: Promise<Failure> };

/** How many flights of other replicas are known at once. A follower of an older one waits for the end of its lease. */
const MOST_FLIGHTS = 1_000;
const newEnds = () => new LRUCache<string, PromiseWithResolvers<Failure>>({ max: MOST_FLIGHTS });

export class ReplicaLeases {
  readonly #redis: RedisService;
  readonly #newHolder: () => string;
  /** The ends of the latest flights of other replicas, by holder. A new map after messages were lost. */
  #ends = newEnds();
  /** The claims that this replica holds. */
  readonly #held = new Set<string>();
  readonly #stopRenewing: () => void;

  /**
   * @param newHolder returns a unique name for a holder
   * @param onFailed called when a flight of another replica failed
   */
  constructor(
    redis: RedisService,
    newHolder: () => string,
    onFailed: (key: string, problem: Problem) => void,
  ) {
    this.#redis = redis;
    this.#newHolder = newHolder;
    redis.bus.on("flight-ended", ({ key, holder, failed }) => {
      const details = { ...failed, internal: "the flight of another replica failed" };
      const failure = failed && new Problem(failed.code, details);
      this.#endOf(holder).resolve(failure);
      if (failure !== undefined) onFailed(key, failure);
    });
    redis.on("down", () => this.#lost()).on("gap", () => this.#lost());
    this.#stopRenewing = every(redis.options.clock, RENEW_MS, () => {
      for (const claim of this.#held)
        // If it fails, the next renewal tries again.
        redis.run("renew", claim, (client) => client.pexpire(claim, LEASE_MS)).catch(() => undefined);
    });
  }

  #endOf(holder: string): PromiseWithResolvers<Failure> {
    const end = this.#ends.get(holder) ?? Promise.withResolvers<Failure>();
    this.#ends.set(holder, end);
    return end;
  }

  /** Ends all waits, because messages may be lost. */
  #lost(): void {
    for (const { resolve } of this.#ends.values()) resolve(undefined);
    this.#ends = newEnds();
  }

  /**
   * Never rejects.
   * @param abandoned ends the wait of a follower
   * @returns `undefined` if claims do not work now, so that each replica fetches for itself
   */
  async claim(key: string, abandoned: AbortSignal): Promise<Claim | undefined> {
    const claim = `${keyIn(this.#redis.options.cache, key)}:flight`;
    const claimant = this.#newHolder();
    const ends = this.#ends;
    try {
      const holder = await this.#redis.run("claim", claim, async (client) => {
        const isSet = await client.set(claim, claimant, "PX", LEASE_MS, "NX");
        return isSet === "OK" ? claimant : await client.get(claim);
      });
      if (holder === claimant) return this.#lead(key, claim, holder);
      // It was released between the two commands, or the message that it was released may be lost.
      if (holder === null || ends !== this.#ends) return await this.claim(key, abandoned);
      // Without messages, this replica would notice the end only when the lease expires.
      if (!this.#redis.isListening()) return undefined;
      return { kind: "follower", ended: this.#follow(holder, abandoned) };
    } catch {
      return undefined;
    }
  }

  /** The lease is renewed until the claim is released. */
  #lead(key: string, claim: string, holder: string): Claim {
    const redis = this.#redis;
    this.#held.add(claim);
    const release = async (failure: Failure): Promise<void> => {
      this.#held.delete(claim);
      // Only the public parts of the problem.
      const failed = failure && { code: failure.code, retryAfterSeconds: failure.details.retryAfterSeconds };
      const text = redis.bus.textOf({ kind: "flight-ended", key, holder, failed });
      const released = redis.run("release", claim, async (client) => {
        if ((await client.get(claim)) !== holder) return;
        await Promise.all([client.del(claim), client.publish(redis.bus.channel, text)]);
      });
      // If it fails, the lease expires.
      await released.catch(() => undefined);
    };
    return { kind: "leader", release };
  }

  /** The wait ends with the lease, at the latest. If the holder has renewed it, this replica follows it again. */
  async #follow(holder: string, abandoned: AbortSignal): Promise<Failure> {
    const over = new AbortController();
    const { clock } = this.#redis.options;
    const expired = pause(clock, LEASE_MS + LEASE_SLACK_MS, AbortSignal.any([abandoned, over.signal]));
    const failure = await Promise.race([this.#endOf(holder).promise, expired]);
    over.abort();
    return failure ?? undefined;
  }

  /** Renews no lease any more, and ends all waits. */
  close(): void {
    this.#stopRenewing();
    this.#lost();
  }
}

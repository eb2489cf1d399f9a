/**
 * Claims among replicas, as leases in Redis.
 *
 * A claim is a key with the name of its holder as value. It expires unless the holder renews it, so a holder that dies blocks
 * a key for at most one lease. If another replica holds the claim, a replica waits for the message that the flight has ended.
 * It remembers the latest messages, so it cannot miss one that arrives before the reply to its claim. The message names the
 * holder, so it cannot be confused with the end of an earlier flight.
 */
import type { ClientContext, Result } from "ioredis";

import { Problem } from "../errors.ts";
import type { Claim, ClaimEnd, Claims } from "./lead-or-follow.ts";
import { type Clock, every } from "../process/clock.ts";
import { keyIn } from "../query/key.ts";
import { readScript, type RedisService } from "../redis/redis.ts";
import type { MessageOf } from "../redis/messages.ts";

const LEASE_MS = 3_000;
const RENEW_MS = 1_000;
/** Added to the rest of a lease, so that the lease has certainly expired. */
const LEASE_SLACK_MS = 10;

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    claimFlight(
      key: string,
      claimant: string,
      leaseMs: number,
    ): Result<[holder: string, leftMs: number], Context>;
    renewClaim(key: string, holder: string, leaseMs: number): Result<number, Context>;
    releaseClaim(key: string, holder: string, channel: string, message: string): Result<number, Context>;
  }
}

const script = (name: string): ReturnType<typeof readScript> =>
  readScript(new URL(`./lua/${name}.lua`, import.meta.url));

const SCRIPTS = {
  claimFlight: script("claim"),
  renewClaim: script("renew-claim"),
  releaseClaim: script("release-claim"),
};

export interface RedisClaimsOptions {
  readonly redis: RedisService;
  readonly clock: Clock;
  /** The prefix of all keys. */
  readonly namespace: string;
  /** @returns a unique name for a holder */
  readonly newHolder: () => string;
  /** Called when a flight of another replica failed. */
  readonly onFailed: (key: string, problem: Problem) => void;
}

const VACANT: ClaimEnd = { kind: "vacant" };
/** How many ends are remembered for followers whose claim has not been answered yet. */
const MOST_ENDED = 1_000;

/** A wait for the flight of a holder. */
interface Follower {
  readonly holder: string;
  /** Ends the wait. Only the first call counts. */
  readonly end: (end: ClaimEnd) => void;
}

export class RedisClaims implements Claims {
  readonly #options: RedisClaimsOptions;
  /** How the latest flights ended, by holder, the oldest first. */
  readonly #ended = new Map<string, ClaimEnd>();
  readonly #followers = new Set<Follower>();
  /** Functions that stop the renewal of the leases of this replica. */
  readonly #renewals = new Set<() => void>();
  #gaps = 0;

  constructor(options: RedisClaimsOptions) {
    const { redis, onFailed } = options;
    this.#options = options;
    redis.defineScripts(SCRIPTS);
    redis.bus.on("flight-ended", ({ key, holder, end: sent }) => {
      const end = received(sent);
      this.#ended.set(holder, end);
      if (this.#ended.size > MOST_ENDED) this.#ended.delete(this.#ended.keys().next().value ?? "");
      for (const follower of this.#followers) if (follower.holder === holder) follower.end(end);
      if (end.kind === "failed") onFailed(key, end.problem);
    });
    redis.watch({ onDown: () => this.#vacateAll() });
  }

  /** Ends all waits, because messages may be lost. */
  #vacateAll(): void {
    this.#gaps++;
    for (const follower of this.#followers) follower.end(VACANT);
  }

  async claim(key: string): Promise<Claim> {
    const { redis, newHolder } = this.#options;
    const [mayFollow, gapsBefore] = [redis.isListening(), this.#gaps];
    const claimant = newHolder();
    try {
      const [holder, leftMs] = await redis.run("claim", key, (client) =>
        client.claimFlight(this.#keyOf(key), claimant, LEASE_MS),
      );
      if (holder === claimant) return this.#lead(key, holder);
      // Without messages, this replica would notice the end only when the lease expires.
      if (!mayFollow) return { kind: "unavailable" };
      return this.#follow(holder, leftMs, gapsBefore === this.#gaps ? this.#ended.get(holder) : VACANT);
    } catch {
      return { kind: "unavailable" };
    }
  }

  /** A claim has the hash tag of its entry, so both are in the same slot of a Cluster. */
  #keyOf(key: string): string {
    return `${keyIn(this.#options.namespace, key)}:flight`;
  }

  /** Renews the lease until the claim is released. */
  #lead(key: string, holder: string): Claim {
    const { redis, clock } = this.#options;
    const claim = this.#keyOf(key);
    const stop = every(clock, RENEW_MS, () => {
      redis
        .run("renew", key, (client) => client.renewClaim(claim, holder, LEASE_MS))
        .then((isHeld) => isHeld === 1 || stop())
        // The result is unknown, so the next renewal tries again.
        .catch(() => undefined);
    });
    this.#renewals.add(stop);
    const release = async (end: ClaimEnd): Promise<void> => {
      stop();
      this.#renewals.delete(stop);
      const text = redis.bus.textOf({ kind: "flight-ended", key, holder, end: sendable(end) });
      await redis
        .run("release", key, (client) => client.releaseClaim(claim, holder, redis.bus.channel, text))
        // The lease then expires.
        .catch(() => undefined);
    };
    return { kind: "leader", release };
  }

  /**
   * The wait ends with the lease, at the latest. If the holder has renewed it, this replica follows it again.
   * @param known how the flight has ended already
   */
  #follow(holder: string, leftMs: number, known: ClaimEnd | undefined): Claim {
    const { promise: ended, resolve } = Promise.withResolvers<ClaimEnd>();
    const leaseMs = (leftMs < 0 ? LEASE_MS : leftMs) + LEASE_SLACK_MS;
    const cancel = this.#options.clock.after(leaseMs, () => end(VACANT));
    const end = (how: ClaimEnd): void => {
      cancel();
      this.#followers.delete(follower);
      resolve(how);
    };
    const follower: Follower = { holder, end };
    this.#followers.add(follower);
    if (known !== undefined) end(known);
    return { kind: "follower", ended, stop: () => end(VACANT) };
  }

  /** Stops the renewal of all leases, and ends all waits as `vacant`. */
  close(): void {
    for (const stop of this.#renewals) stop();
    this.#vacateAll();
  }
}

type SentEnd = MessageOf<"flight-ended">["end"];

/** @returns the end with only the public parts of a problem, and whether the gateway itself refused */
function sendable(end: ClaimEnd): SentEnd {
  if (end.kind !== "failed") return end;
  const { code, details } = end.problem;
  const { detail, retryAfterSeconds, refusedHere } = details;
  return { kind: "failed", code, detail, retryAfterSeconds, refusedHere };
}

function received(end: SentEnd): ClaimEnd {
  if (end.kind !== "failed") return end;
  const { kind, code, ...details } = end;
  const internal = "the flight of another replica failed";
  return { kind, problem: new Problem(code, { ...details, internal }) };
}

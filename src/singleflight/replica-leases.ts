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
import { Problem } from "../errors.ts";
import { every, pause } from "../process/clock.ts";
import { keyIn } from "../query/key.ts";
import type { RedisService } from "../redis/redis.ts";
import type { MessageOf } from "../redis/messages.ts";

const LEASE_MS = 3_000;
const RENEW_MS = 1_000;
/** Added to a lease, so that it has certainly expired. */
const LEASE_SLACK_MS = 10;

/** How the flight of another replica ended. */
export type ClaimEnd =
  /** The entry is in the shared store. */
  | { readonly kind: "landed" }
  /** All replicas use the leader's problem, because otherwise each replica would call a failing upstream. */
  | { readonly kind: "failed"; readonly problem: Problem }
  /** The leader withdrew or died, or the end is unknown. A replica that still needs the answer claims the key again. */
  | { readonly kind: "vacant" };

/** The result of claiming a key: the right to fetch it, or a wait for the replica that has this right. */
export type Claim =
  /** `release` never rejects. */
  | { readonly kind: "leader"; readonly release: (end: ClaimEnd) => Promise<void> }
  /** `ended` resolves with the leader's message, or when its lease has expired. It never rejects. */
  | { readonly kind: "follower"; readonly ended: Promise<ClaimEnd> }
  /** Claims do not work now, so each replica fetches for itself. */
  | { readonly kind: "unavailable" };

const VACANT: ClaimEnd = { kind: "vacant" };
/** How many ends are remembered for followers whose claim has not been answered yet. */
const MOST_ENDED = 1_000;

export class ReplicaLeases {
  readonly #redis: RedisService;
  readonly #newHolder: () => string;
  /** How the latest flights ended, by holder, the oldest first. */
  readonly #ended = new Map<string, ClaimEnd>();
  /** What ends the wait of each follower, with the holder that it waits for. */
  readonly #followers = new Map<(end: ClaimEnd) => void, string>();
  /** The claims that this replica holds. */
  readonly #held = new Set<string>();
  readonly #stopRenewing: () => void;
  /** How often messages may have been lost. */
  #losses = 0;

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
    redis.bus.on("flight-ended", ({ key, holder, end: sent }) => {
      const end = received(sent);
      this.#ended.set(holder, end);
      if (this.#ended.size > MOST_ENDED) this.#ended.delete(this.#ended.keys().next().value ?? "");
      for (const [follower, awaited] of this.#followers) if (awaited === holder) follower(end);
      if (end.kind === "failed") onFailed(key, end.problem);
    });
    redis.on("down", () => this.#lost()).on("gap", () => this.#lost());
    this.#stopRenewing = every(redis.options.clock, RENEW_MS, () => {
      for (const claim of this.#held)
        // If it fails, the next renewal tries again.
        redis.run("renew", claim, (client) => client.pexpire(claim, LEASE_MS)).catch(() => undefined);
    });
  }

  /** Ends all waits, because messages may be lost. */
  #lost(): void {
    this.#losses++;
    for (const follower of this.#followers.keys()) follower(VACANT);
  }

  /**
   * Never rejects.
   * @param abandoned ends the wait of a follower, as `vacant`
   */
  async claim(key: string, abandoned: AbortSignal): Promise<Claim> {
    const claim = `${keyIn(this.#redis.options.cache, key)}:flight`;
    const claimant = this.#newHolder();
    const losses = this.#losses;
    try {
      const holder = await this.#redis.run("claim", claim, async (client) => {
        const isSet = await client.set(claim, claimant, "PX", LEASE_MS, "NX");
        return isSet === "OK" ? claimant : await client.get(claim);
      });
      if (holder === claimant) return this.#lead(key, claim, holder);
      // It was released between the two commands, or the message that it was released may be lost.
      if (holder === null || losses !== this.#losses) return await this.claim(key, abandoned);
      // Without messages, this replica would notice the end only when the lease expires.
      if (!this.#redis.isListening()) return { kind: "unavailable" };
      return { kind: "follower", ended: this.#follow(holder, abandoned) };
    } catch {
      return { kind: "unavailable" };
    }
  }

  /** The lease is renewed until the claim is released. */
  #lead(key: string, claim: string, holder: string): Claim {
    const redis = this.#redis;
    this.#held.add(claim);
    const release = async (end: ClaimEnd): Promise<void> => {
      this.#held.delete(claim);
      const text = redis.bus.textOf({ kind: "flight-ended", key, holder, end: sendable(end) });
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
  async #follow(holder: string, abandoned: AbortSignal): Promise<ClaimEnd> {
    const over = new AbortController();
    let how = VACANT;
    const end = (told: ClaimEnd): void => {
      how = told;
      over.abort(told);
    };
    this.#followers.set(end, holder);
    const known = this.#ended.get(holder);
    if (known !== undefined) end(known);
    await pause(
      this.#redis.options.clock,
      LEASE_MS + LEASE_SLACK_MS,
      AbortSignal.any([abandoned, over.signal]),
    );
    this.#followers.delete(end);
    return how;
  }

  /** Renews no lease any more, and ends all waits as `vacant`. */
  close(): void {
    this.#stopRenewing();
    this.#lost();
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

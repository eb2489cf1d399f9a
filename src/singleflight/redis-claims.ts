/**
 * Claims among replicas, as leases in Redis.
 *
 * A claim is a key with the name of its holder as value. It expires unless the holder renews it, so a holder that dies blocks
 * a key for at most one lease. If another replica holds the claim, a replica waits for the message that the flight has ended.
 * It remembers the latest messages, so it cannot miss one that arrives before the reply to its claim. The message names the
 * holder, so it cannot be confused with the end of an earlier flight.
 */
import type { ClientContext, Result } from "ioredis";

import type { Problem } from "../errors.ts";
import type { Claim, ClaimEnd, Claims } from "./replicas.ts";
import type { Clock } from "../process/clock.ts";
import { keyIn } from "../query/key.ts";
import { readScript, type RedisService } from "../redis/service.ts";
import type { Seal } from "../process/seal.ts";
import { endedMessage, readEndedMessage } from "./ended-message.ts";

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
    readClaim(key: string): Result<[holder: string, leftMs: number], Context>;
    renewClaim(key: string, holder: string, leaseMs: number): Result<number, Context>;
    releaseClaim(key: string, holder: string, channel: string, message: string): Result<number, Context>;
  }
}

const script = (name: string): ReturnType<typeof readScript> =>
  readScript(new URL(`./lua/${name}.lua`, import.meta.url));

const SCRIPTS = {
  claimFlight: script("claim"),
  readClaim: script("read-claim"),
  renewClaim: script("renew-claim"),
  releaseClaim: script("release-claim"),
};

export interface RedisClaims extends Claims {
  /** Stops the renewal of all leases, and ends all waits as `vacant`. */
  readonly close: () => void;
}

export interface RedisClaimsOptions {
  readonly redis: RedisService;
  readonly clock: Clock;
  /** The prefix of all keys and of the channel. */
  readonly namespace: string;
  /** @returns a unique name for a holder */
  readonly newHolder: () => string;
  /** Authenticates the messages. */
  readonly seal: Seal;
  /** Called when a flight failed, here or in another replica. */
  readonly onFailed: (key: string, problem: Problem) => void;
}

type Lead = (key: string, holder: string) => Claim;

const VACANT: ClaimEnd = { kind: "vacant" };
/** How many ends are remembered for followers whose claim has not been answered yet. */
const MOST_ENDED = 1_000;

export function createRedisClaims(options: RedisClaimsOptions): RedisClaims {
  const { redis, newHolder, seal, onFailed } = options;
  const keyOf = claimKeyIn(options.namespace);
  const channel = `${options.namespace}flights`;
  /** How the latest flights ended, by holder, the oldest first. */
  const ended = new Map<string, ClaimEnd>();
  const followers = new Set<Follower>();
  let gaps = 0;
  /** Functions that stop the renewal of the leases of this replica. */
  const renewals = new Set<() => void>();
  const lead = createLead(options, channel, renewals);

  /** Ends all waits, because messages may be lost. */
  function vacateAll(): void {
    gaps++;
    for (const follower of followers) follower.end(VACANT);
  }

  redis.defineScripts(SCRIPTS);
  redis.subscribe({
    channels: [channel],
    onMessage(_channel, text) {
      const message = readEndedMessage(seal, text);
      if (message === undefined) return;
      const { key, holder, end } = message;
      ended.set(holder, end);
      if (ended.size > MOST_ENDED) ended.delete(ended.keys().next().value ?? "");
      for (const follower of followers) if (follower.holder === holder) follower.end(end);
      if (end.kind === "failed") onFailed(key, end.problem);
    },
    onDown: vacateAll,
  });

  return {
    async claim(key) {
      const [mayFollow, gapsBefore] = [redis.isListening(), gaps];
      const claimant = newHolder();
      try {
        const [holder, leftMs] = await redis.run("claim", key, (client) =>
          client.claimFlight(keyOf(key), claimant, LEASE_MS),
        );
        if (holder === claimant) return lead(key, holder);
        // Without messages, this replica would notice the end only when the lease expires.
        if (!mayFollow) return { kind: "unavailable" };
        const follower = createFollower(options, key, holder, leftMs);
        followers.add(follower);
        void follower.ended.then(() => followers.delete(follower));
        const earlier = gaps === gapsBefore ? ended.get(holder) : VACANT;
        if (earlier !== undefined) follower.end(earlier);
        return { kind: "follower", ended: follower.ended, stop: () => follower.end(VACANT) };
      } catch {
        return { kind: "unavailable" };
      }
    },
    close() {
      for (const stop of renewals) stop();
      vacateAll();
    },
  };
}

function createLead(
  { redis, namespace, clock, seal }: RedisClaimsOptions,
  channel: string,
  renewals: Set<() => void>,
): Lead {
  const keyOf = claimKeyIn(namespace);
  return function lead(key, holder) {
    let cancel = (): void => undefined;
    const stop = (): void => {
      renewals.delete(stop);
      cancel();
    };
    const renewLater = (): void => void (cancel = clock.after(RENEW_MS, () => void renew()));
    async function renew(): Promise<void> {
      const isStillHeld = await redis
        .run("renew", key, (client) => client.renewClaim(keyOf(key), holder, LEASE_MS))
        // The result is unknown, so the next renewal tries again.
        .catch(() => 1);
      if (isStillHeld === 1 && renewals.has(stop)) renewLater();
    }

    renewals.add(stop);
    renewLater();
    return {
      kind: "leader",
      async release(end) {
        stop();
        await redis
          .run("release", key, (client) =>
            client.releaseClaim(keyOf(key), holder, channel, endedMessage(seal, key, holder, end)),
          )
          // The lease then expires.
          .catch(() => undefined);
      },
    };
  };
}

/** A wait for the flight of a holder. */
interface Follower {
  readonly holder: string;
  readonly ended: Promise<ClaimEnd>;
  /** Ends the wait. Only the first call counts. */
  readonly end: (end: ClaimEnd) => void;
}

/** @returns a follower. It ends by itself when the holder has lost its lease. */
function createFollower(
  { redis, namespace, clock }: RedisClaimsOptions,
  key: string,
  holder: string,
  leftMs: number,
): Follower {
  const claim = claimKeyIn(namespace)(key);
  const { promise: ended, resolve } = Promise.withResolvers<ClaimEnd>();
  let hasEnded = false;
  let cancel = (): void => undefined;
  function end(how: ClaimEnd): void {
    hasEnded = true;
    cancel();
    resolve(how);
  }
  function waitForLease(ms: number): void {
    cancel = clock.after((ms < 0 ? LEASE_MS : ms) + LEASE_SLACK_MS, () => void checkLease());
  }
  async function checkLease(): Promise<void> {
    const [now, left] = await redis
      .run("claim", key, (client) => client.readClaim(claim))
      .catch(() => ["", 0] as const);
    if (hasEnded) return;
    if (now === holder) waitForLease(left);
    else end(VACANT);
  }
  waitForLease(leftMs);
  return { holder, ended, end };
}

/** A claim has the hash tag of its entry, so both are in the same slot of a Cluster. */
function claimKeyIn(namespace: string): (key: string) => string {
  return (key) => `${keyIn(namespace, key)}:flight`;
}

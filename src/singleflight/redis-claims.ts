/**
 * Claims among replicas, as leases in Redis.
 *
 * A claim is a key with the name of its holder as value. It expires unless the holder renews it, so a holder that dies blocks
 * a key for at most one lease. If another replica holds the claim, a replica waits for the message that the flight has ended.
 * It listens before it claims, so it cannot miss the message. The message names the holder, so it cannot be confused with the
 * end of an earlier flight.
 */
import type { ClientContext, Result } from "ioredis";

import type { Problem } from "../errors.ts";
import type { Claim, ClaimEnd, Claims } from "../types.ts";
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
type Follow = (key: string, listener: Listener, holder: string, leftMs: number) => Claim;

export function createRedisClaims(options: RedisClaimsOptions): RedisClaims {
  const { redis, newHolder, seal, onFailed } = options;
  const keyOf = claimKeyIn(options.namespace);
  const channel = `${options.namespace}flights`;
  const listeners = createListeners();
  /** Functions that stop the renewal of the leases of this replica. */
  const renewals = new Set<() => void>();
  const lead = createLead(options, channel, renewals);
  const follow = createFollow(options);

  redis.defineScripts(SCRIPTS);
  redis.subscribe({
    channels: [channel],
    onMessage(_channel, text) {
      const message = readEndedMessage(seal, text);
      if (message === undefined) return;
      const { key, holder, end } = message;
      listeners.ended(key, holder, end);
      if (end.kind === "failed") onFailed(key, end.problem);
    },
    onDown: listeners.vacateAll,
  });

  return {
    async claim(key) {
      const mayFollow = redis.isListening();
      const listener = listeners.listen(key);
      const claimant = newHolder();
      try {
        const [holder, leftMs] = await redis.run("claim", key, (client) =>
          client.claimFlight(keyOf(key), claimant, LEASE_MS),
        );
        if (holder !== claimant && mayFollow) return follow(key, listener, holder, leftMs);
        listener.stop();
        // Without messages, this replica would notice the end only when the lease expires.
        return holder === claimant ? lead(key, holder) : { kind: "unavailable" };
      } catch {
        listener.stop();
        return { kind: "unavailable" };
      }
    },
    close() {
      for (const stop of renewals) stop();
      listeners.vacateAll();
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

function createFollow({ redis, namespace, clock }: RedisClaimsOptions): Follow {
  const keyOf = claimKeyIn(namespace);
  return function follow(key, listener, holder, leftMs) {
    let cancel = (): void => undefined;
    const { promise: ended, resolve } = Promise.withResolvers<ClaimEnd>();
    const stop = (): void => {
      cancel();
      listener.stop();
    };
    const end = (how: ClaimEnd): void => {
      stop();
      resolve(how);
    };
    const waitForLease = (ms: number): void =>
      void (cancel = clock.after((ms < 0 ? LEASE_MS : ms) + LEASE_SLACK_MS, () => void checkLease()));
    async function checkLease(): Promise<void> {
      const [now, left] = await redis
        .run("claim", key, (client) => client.readClaim(keyOf(key)))
        .catch(() => ["", 0] as const);
      if (listener.isStopped()) return;
      if (now === holder) waitForLease(left);
      else end({ kind: "vacant" });
    }

    waitForLease(leftMs);
    listener.onEnd(holder, end);
    return { kind: "follower", ended, stop };
  };
}

/** A claim has the hash tag of its entry, so both are in the same slot of a Cluster. */
function claimKeyIn(namespace: string): (key: string) => string {
  return (key) => `${keyIn(namespace, key)}:flight`;
}

/** Receives how the flights of a key end, from its creation on. */
interface Listener {
  /** Calls back when the flight of a holder has ended; immediately if it has already ended. */
  readonly onEnd: (holder: string, listen: (end: ClaimEnd) => void) => void;
  readonly stop: () => void;
  readonly isStopped: () => boolean;
}

interface Listeners {
  readonly listen: (key: string) => Listener;
  readonly ended: (key: string, holder: string, end: ClaimEnd) => void;
  /** Ends all waits as `vacant`, because messages may be lost. */
  readonly vacateAll: () => void;
}

const VACANT: ClaimEnd = { kind: "vacant" };

function createListeners(): Listeners {
  const byKey = new Map<string, Set<(holder: string | undefined, end: ClaimEnd) => void>>();
  return {
    listen(key) {
      /** The ends that were received before `onEnd`, by holder. */
      const earlier = new Map<string, ClaimEnd>();
      let isVacated = false;
      let receive = (holder: string | undefined, end: ClaimEnd): void => {
        if (holder === undefined) isVacated = true;
        else earlier.set(holder, end);
      };
      const listener = (holder: string | undefined, end: ClaimEnd): void => receive(holder, end);
      const ofKey = byKey.get(key) ?? new Set();
      byKey.set(key, ofKey.add(listener));
      return {
        onEnd(holder, listen) {
          const end = isVacated ? VACANT : earlier.get(holder);
          if (end !== undefined) return listen(end);
          receive = (endedHolder, end) => {
            if (endedHolder === undefined || endedHolder === holder) listen(end);
          };
        },
        stop() {
          ofKey.delete(listener);
          if (ofKey.size === 0 && byKey.get(key) === ofKey) byKey.delete(key);
        },
        isStopped: () => !ofKey.has(listener),
      };
    },
    ended(key, holder, end) {
      for (const listener of byKey.get(key) ?? []) listener(holder, end);
    },
    vacateAll() {
      for (const ofKey of byKey.values()) for (const listener of ofKey) listener(undefined, VACANT);
    },
  };
}

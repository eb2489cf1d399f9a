/**
 * Flights among replicas, by leases in Redis.
 *
 * The claim of a flight is a key with its holder as value, which expires unless the holder renews it; so a
 * holder that dies is out of the way after a lease at most. Who finds it taken waits for the message that
 * the flight has ended. It listens from before it asks, and the message names the holder, so the message
 * of this very flight cannot be missed, nor that of an earlier one be taken for it. In the same way the holder
 * listens from before it asks for what followers say of those who wait with them.
 */
import type { Claim, ClaimEnd, Claims } from "../types.ts";
import type { Clock } from "../process/clock.ts";
import type { RedisCalls } from "../redis/commands.ts";
import { createHearings, type Hearing, type Hearings } from "./redis-claim-hearing.ts";
import { createListeners, type Listener } from "./redis-claim-listeners.ts";
import { createTelling } from "./redis-claim-telling.ts";
import { CHANNEL, endedMessage, type RedisMessage, waitingMessage } from "../cache/store/redis-messages.ts";

const LEASE_MS = 3_000;
const RENEW_MS = 1_000;
/** Lets the lease run out before it is looked at. */
const LEASE_SLACK_MS = 10;

export interface RedisClaims extends Claims {
  readonly onEnded: (message: Extract<RedisMessage, { kind: "ended" }>) => void;
  readonly onWaiting: Hearings["onWaiting"];
  /** Messages, or Redis, cannot be relied on: nobody waits any longer. */
  readonly vacateAll: () => void;
  readonly close: () => void;
}

export interface RedisClaimsOptions {
  readonly calls: RedisCalls;
  readonly clock: Clock;
  /** The name of this replica, unlike any other's. */
  readonly replica: string;
  /** A new name for a holder, unlike any other. */
  readonly newHolder: () => string;
  /** Whether messages are being received. */
  readonly isListening: () => boolean;
}

export function createRedisClaims(options: RedisClaimsOptions): RedisClaims {
  const { calls, clock, newHolder, isListening } = options;
  const listeners = createListeners();
  const hearings = createHearings(clock);
  /** Stops the renewal of each claim held. */
  const held = new Set<() => void>();

  return {
    async claim(key) {
      const mayFollow = isListening();
      const listener = listeners.listen(key);
      const claimant = newHolder();
      const hearing = hearings.listen(claimant);
      try {
        const [holder, leftMs] = await calls.run("claim", key, (client) =>
          client.claimFlight(claimKey(key), claimant, LEASE_MS),
        );
        if (holder === claimant) {
          listener.stop();
          return lead(options, key, { holder, hearing, held });
        }
        if (mayFollow) {
          hearing.stop();
          return follow(options, key, { listener, holder, leftMs });
        }
        // To wait without hearing would be to wait for the lease.
      } catch {
        // Nobody knows whose it is.
      }
      for (const part of [listener, hearing]) part.stop();
      return { kind: "unavailable" };
    },
    onEnded: listeners.onEnded,
    onWaiting: hearings.onWaiting,
    vacateAll: listeners.vacateAll,
    close() {
      for (const stop of held) stop();
      listeners.vacateAll();
    },
  };
}

type Surroundings = Pick<RedisClaimsOptions, "calls" | "clock" | "replica">;

interface Held {
  readonly holder: string;
  readonly hearing: Hearing;
  readonly held: Set<() => void>;
}

function lead({ calls, clock }: Surroundings, key: string, { holder, hearing, held }: Held): Claim {
  let cancel = (): void => undefined;
  const stop = (): void => {
    held.delete(stop);
    hearing.stop();
    cancel();
  };
  function renewLater(): void {
    cancel = clock.after(RENEW_MS, () => void renew());
  }
  async function renew(): Promise<void> {
    const isHeld = await calls
      .run("renew", key, (client) => client.renewClaim(claimKey(key), holder, LEASE_MS))
      // Unknown: it is tried again.
      .catch(() => 1);
    if (isHeld === 1 && held.has(stop)) renewLater();
  }

  held.add(stop);
  renewLater();
  return {
    kind: "leader",
    hear: hearing.passOn,
    async release(end) {
      stop();
      await calls
        .run("release", key, (client) =>
          client.releaseClaim(claimKey(key), holder, CHANNEL, endedMessage(key, holder, end)),
        )
        // Then the lease runs out.
        .catch(() => undefined);
    },
  };
}

interface Taken {
  readonly listener: Listener;
  readonly holder: string;
  /** What is left of the holder's lease. */
  readonly leftMs: number;
}

function follow(
  { calls, clock, replica }: Surroundings,
  key: string,
  { listener, holder, leftMs }: Taken,
): Claim {
  let cancel = (): void => undefined;
  const { promise: ended, resolve } = Promise.withResolvers<ClaimEnd>();
  const telling = createTelling(clock, (party, forMs) => {
    calls
      .run("tell", key, (client) => client.publish(CHANNEL, waitingMessage(holder, replica, party, forMs)))
      // Then those here wait for the call as it is.
      .catch(() => undefined);
  });
  function stop(): void {
    cancel();
    telling.leave();
    listener.stop();
  }
  function end(how: ClaimEnd): void {
    telling.stop();
    stop();
    resolve(how);
  }
  function waitForLease(ms: number): void {
    cancel = clock.after((ms < 0 ? LEASE_MS : ms) + LEASE_SLACK_MS, () => void look());
  }
  async function look(): Promise<void> {
    const [now, left] = await calls
      .run("claim", key, (client) => client.readClaim(claimKey(key)))
      .catch(() => ["", 0] as const);
    if (listener.isStopped()) return;
    if (now === holder) waitForLease(left);
    else end({ kind: "vacant" });
  }

  waitForLease(leftMs);
  listener.onEnd(holder, end);
  return { kind: "follower", ended, tell: telling.tell, stop };
}

/** In the same slot of a Cluster as the entry. */
function claimKey(key: string): string {
  return `${key}:flight`;
}

/**
 * A subscription to Redis channels that is taken up again whenever it is lost.
 */
import type { Redis } from "ioredis";

import type { Clock } from "../process/clock.ts";
import { keepConnected } from "./connection.ts";
import type { RedisAddress, RedisFactory } from "./connect.ts";

export interface RedisSubscription {
  /** Whether messages are being received, as far as is known. */
  readonly isUp: () => boolean;
  /** Gives the connection up and subscribes anew, elsewhere where there is a choice. */
  readonly renew: () => void;
  readonly close: () => void;
}

export interface RedisSubscriptionOptions {
  readonly factory: RedisFactory;
  /** The nodes of a Cluster, as far as they are known. */
  readonly nodes: () => readonly RedisAddress[];
  readonly channels: readonly string[];
  readonly clock: Clock;
  readonly onMessage: (channel: string, message: string) => void;
  /** Every message from now on arrives. */
  readonly onUp: () => void;
  /** Messages may be lost from now on. */
  readonly onDown: () => void;
}

/** Begins to subscribe; never throws because a server is down. */
export function subscribeRedis(options: RedisSubscriptionOptions): RedisSubscription {
  const { factory, nodes, channels, clock, onMessage, onUp, onDown } = options;
  /** The client that has subscribed. */
  let subscriber: Redis | undefined;

  const kept = keepConnected<Redis>({
    clock,
    create: (attempt) => factory.subscriber(nodes(), attempt),
    onReady: (client) => void subscribe(client),
    onEnd: () => {
      if (subscriber === undefined) return;
      subscriber = undefined;
      onDown();
    },
  });

  async function subscribe(client: Redis): Promise<void> {
    client.on("message", (channel, message) => {
      if (client === subscriber) onMessage(channel, message);
    });
    try {
      await client.subscribe(...channels);
    } catch {
      // Its connection has ended, and there is a new one, or it may not subscribe: that may change.
      client.disconnect();
      return;
    }
    if (client !== kept.client()) return;
    subscriber = client;
    onUp();
  }

  return {
    isUp: () => subscriber !== undefined,
    renew: kept.renew,
    close: kept.close,
  };
}

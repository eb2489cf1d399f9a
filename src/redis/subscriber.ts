/**
 * The connection for messages. It uses PUBLISH and SUBSCRIBE, which work in the same way on a single server, on a Cluster and
 * behind Sentinel.
 *
 * Redis may lose messages, so each subscription gets a call when messages may have been lost (`onGap`). A heartbeat finds a
 * connection on which no messages arrive: this process sends messages to itself, and replaces the connection when one does
 * not arrive. ioredis cannot do this: it does not report when it has subscribed again after a reconnect, so the end of a gap
 * would be unknown.
 */
import type { Redis } from "ioredis";

import type { Clock } from "../process/clock.ts";
import type { RedisAddress, RedisFactory } from "./connect.ts";

/** If a heartbeat does not arrive within this many command timeouts, the connection is replaced. */
const HEARTBEAT_TIMEOUTS = 4;
/** A connection that has not subscribed after this many intervals is replaced. */
const MAX_INTERVALS_DOWN = 2;
/** The pause before the connection moves to the next node of a Cluster. */
const NEXT_NODE_MS = 20;

/** The channels and callbacks of one part of the gateway. */
export interface Subscription {
  readonly channels: readonly string[];
  readonly onMessage: (channel: string, text: string) => void;
  /** Messages may have been lost. From now on they arrive. */
  readonly onGap?: () => void;
  /** Messages may be lost from now on, or Redis has an outage. */
  readonly onDown?: () => void;
  /** Commands work again after an outage. */
  readonly onRecovery?: () => void;
}

export interface RedisSubscriber {
  /** Whether messages arrive, as far as this process knows. */
  readonly isUp: () => boolean;
  readonly subscribe: (subscription: Subscription) => void;
  /** Checks immediately whether messages arrive. */
  readonly check: () => void;
  /** Replaces the connection with a new one. */
  readonly renew: () => void;
  readonly close: () => void;
}

export interface RedisSubscriberOptions {
  readonly factory: RedisFactory;
  /** The known nodes of a Cluster. */
  readonly nodes: () => readonly RedisAddress[];
  readonly clock: Clock;
  /** The channel for the heartbeats of this process. */
  readonly heartbeatChannel: string;
  /** Publishes a heartbeat. */
  readonly publish: (channel: string, text: string) => Promise<unknown>;
  readonly commandTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
}

/** Starts to subscribe. Does not throw if the server is down. */
export function createRedisSubscriber(options: RedisSubscriberOptions): RedisSubscriber {
  const { clock, heartbeatChannel, heartbeatIntervalMs } = options;
  const subscriptions: Subscription[] = [];
  const connection = connectSubscriber({
    ...options,
    channels: () => [heartbeatChannel, ...subscriptions.flatMap(({ channels }) => channels)],
    onUp() {
      heartbeat.reset();
      for (const { onGap } of subscriptions) onGap?.();
    },
    onDown() {
      for (const { onDown } of subscriptions) onDown?.();
    },
    onMessage(channel, text) {
      if (channel === heartbeatChannel) return heartbeat.received(text);
      for (const { channels, onMessage } of subscriptions)
        if (channels.includes(channel)) onMessage(channel, text);
    },
  });
  const heartbeat = createHeartbeat(options, connection.renew);
  let intervalsDown = 0;
  let cancelCheck = clock.after(heartbeatIntervalMs, onInterval);

  function check(): void {
    if (connection.isUp()) {
      intervalsDown = 0;
      void heartbeat.send();
    } else if (++intervalsDown > MAX_INTERVALS_DOWN) {
      intervalsDown = 0;
      connection.renew();
    }
  }

  function onInterval(): void {
    cancelCheck = clock.after(heartbeatIntervalMs, onInterval);
    check();
  }

  return {
    isUp: connection.isUp,
    check,
    renew: connection.renew,
    subscribe(subscription) {
      subscriptions.push(subscription);
      connection.subscribeAgain();
    },
    close() {
      cancelCheck();
      heartbeat.stop();
      connection.close();
    },
  };
}

interface SubscriberConnection {
  readonly isUp: () => boolean;
  /** Subscribes to the current `channels`. Does nothing if the connection is not ready yet. */
  readonly subscribeAgain: () => void;
  /** Replaces the client. On a Cluster, the new client uses the next node. */
  readonly renew: () => void;
  readonly close: () => void;
}

interface SubscriberConnectionOptions extends Pick<RedisSubscriberOptions, "factory" | "nodes" | "clock"> {
  readonly channels: () => readonly string[];
  readonly onUp: () => void;
  readonly onDown: () => void;
  readonly onMessage: (channel: string, text: string) => void;
}

function connectSubscriber(options: SubscriberConnectionOptions): SubscriberConnection {
  const { factory, nodes, clock, channels, onUp, onDown, onMessage } = options;
  let isUp = false;
  let attempt = 0;
  let cancelRenewal = (): void => undefined;
  let current: Redis | undefined = begin();

  function begin(): Redis {
    const client = factory.subscriber(nodes(), attempt++);
    client.on("error", () => undefined);
    client.on("ready", () => void subscribe(client));
    client.on("message", (channel: string, text: string) => {
      if (client === current) onMessage(channel, text);
    });
    client.on("close", () => {
      if (client === current) down();
    });
    client.on("end", () => {
      if (client === current) cancelRenewal = clock.after(NEXT_NODE_MS, renew);
    });
    return client;
  }

  async function subscribe(client: Redis): Promise<void> {
    try {
      await client.subscribe(...channels());
    } catch {
      // The connection was lost again, or the user has no permission to subscribe. `check` renews the connection.
      return;
    }
    if (client !== current) return;
    isUp = true;
    onUp();
  }

  function down(): void {
    if (!isUp) return;
    isUp = false;
    onDown();
  }

  function renew(): void {
    cancelRenewal();
    const old = current;
    current = begin();
    old?.disconnect();
    down();
  }

  return {
    isUp: () => isUp,
    renew,
    subscribeAgain() {
      if (current?.status === "ready") void subscribe(current);
    },
    close() {
      cancelRenewal();
      const old = current;
      current = undefined;
      isUp = false;
      old?.disconnect();
    },
  };
}

interface Heartbeat {
  readonly send: () => Promise<void>;
  readonly received: (text: string) => void;
  /** Ignores the heartbeats that were sent before: they may be lost without a fault. */
  readonly reset: () => void;
  readonly stop: () => void;
}

function createHeartbeat(
  { publish, clock, commandTimeoutMs, heartbeatChannel }: RedisSubscriberOptions,
  onLost: () => void,
): Heartbeat {
  let lastSent = 0;
  let lastReceived = 0;
  let isStopped = false;
  let cancelWait: (() => void) | undefined;
  return {
    async send() {
      const number = ++lastSent;
      try {
        await publish(heartbeatChannel, String(number));
      } catch {
        // It was not sent, so it cannot arrive.
        return;
      }
      // One at a time: a later heartbeat must not extend the wait for an earlier one.
      if (isStopped || cancelWait !== undefined) return;
      cancelWait = clock.after(HEARTBEAT_TIMEOUTS * commandTimeoutMs, () => {
        cancelWait = undefined;
        if (lastReceived < number) onLost();
      });
    },
    received: (text) => void (lastReceived = Number(text)),
    reset: () => void (lastReceived = lastSent),
    stop() {
      isStopped = true;
      cancelWait?.();
    },
  };
}

/**
 * The connection for messages. It uses PUBLISH and SUBSCRIBE, which work in the same way on a single server, on a Cluster and
 * behind Sentinel.
 *
 * Redis may lose messages, so each subscription gets a call when messages may have been lost (`onGap`). It subscribes itself
 * after each connect, because ioredis does not report when it has subscribed again. A PING at intervals finds a connection
 * that no longer answers.
 */
import type { Redis } from "ioredis";

import type { Clock } from "../process/clock.ts";
import type { RedisAddress, RedisFactory } from "./connect.ts";

/** If the server does not answer within this many command timeouts, the connection is replaced. */
const PING_TIMEOUTS = 4;
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
  /** Subscribes to the channels of all subscriptions. */
  readonly subscribe: () => void;
  /** Checks immediately whether the server answers. */
  readonly check: () => void;
  /** Replaces the connection. On a Cluster, the new one uses the next node. */
  readonly renew: () => void;
  readonly close: () => void;
}

export interface RedisSubscriberOptions {
  readonly factory: RedisFactory;
  /** The known nodes of a Cluster. */
  readonly nodes: () => readonly RedisAddress[];
  readonly clock: Clock;
  /** May become more. */
  readonly subscriptions: readonly Subscription[];
  readonly commandTimeoutMs: number;
  readonly checkIntervalMs: number;
}

/** Starts to connect. Does not throw if the server is down. */
export function createRedisSubscriber(options: RedisSubscriberOptions): RedisSubscriber {
  const { clock, checkIntervalMs, commandTimeoutMs } = options;
  const connection = connect(options);
  let intervalsDown = 0;
  let cancelWait: (() => void) | undefined;
  let cancelCheck = clock.after(checkIntervalMs, onInterval);

  function stopWaiting(): void {
    cancelWait?.();
    cancelWait = undefined;
  }

  function renew(): void {
    stopWaiting();
    intervalsDown = 0;
    connection.renew();
  }

  function check(): void {
    intervalsDown = connection.isUp() ? 0 : intervalsDown + 1;
    if (intervalsDown > MAX_INTERVALS_DOWN) return renew();
    // One at a time: a later PING must not extend the wait for an earlier one.
    if (!connection.isUp() || cancelWait !== undefined) return;
    const cancel = clock.after(PING_TIMEOUTS * commandTimeoutMs, renew);
    cancelWait = cancel;
    connection.ping(() => {
      if (cancelWait === cancel) stopWaiting();
    });
  }

  function onInterval(): void {
    cancelCheck = clock.after(checkIntervalMs, onInterval);
    check();
  }

  return {
    ...connection,
    check,
    renew,
    close() {
      cancelCheck();
      stopWaiting();
      connection.close();
    },
  };
}

interface SubscriberConnection extends Pick<RedisSubscriber, "isUp" | "subscribe" | "renew" | "close"> {
  /** Calls back when the server answers, or the connection is lost. */
  readonly ping: (answered: () => void) => void;
}

function connect({ factory, nodes, clock, subscriptions }: RedisSubscriberOptions): SubscriberConnection {
  let isUp = false;
  let attempt = 0;
  let cancelRenewal = (): void => undefined;
  let current: Redis | undefined = begin();

  function begin(): Redis {
    const client = factory.subscriber(nodes(), attempt++);
    client.on("error", () => undefined);
    client.on("ready", () => void subscribe(client));
    client.on("message", (channel: string, text: string) => {
      if (client === current) deliver(subscriptions, channel, text);
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
    const channels = subscriptions.flatMap((one) => one.channels);
    if (channels.length === 0) return;
    try {
      await client.subscribe(...channels);
    } catch {
      // The connection was lost again, or the user has no permission to subscribe. `check` renews the connection.
      return;
    }
    if (client !== current) return;
    isUp = true;
    for (const { onGap } of subscriptions) onGap?.();
  }

  function down(): void {
    const wasUp = isUp;
    isUp = false;
    if (wasUp) for (const { onDown } of subscriptions) onDown?.();
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
    ping: (answered) => void current?.ping().then(answered, answered),
    subscribe() {
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

function deliver(subscriptions: readonly Subscription[], channel: string, text: string): void {
  for (const { channels, onMessage } of subscriptions)
    if (channels.includes(channel)) onMessage(channel, text);
}

/**
 * The connection for messages. It uses PUBLISH and SUBSCRIBE, which work in the same way on a single server, on a Cluster and
 * behind Sentinel. It subscribes itself after each connect, because ioredis does not report when it has subscribed again. A
 * PING at intervals finds a connection that no longer answers.
 */
import type { Redis } from "ioredis";

import { type Clock, every } from "../process/clock.ts";
import type { RedisAddress, RedisFactory } from "./connect.ts";

/** If so many PINGs in a row have no answer, or it has not subscribed meanwhile, the connection is replaced. */
const MOST_UNANSWERED = 2;
/** The pause before the connection moves to the next node of a Cluster. */
const NEXT_NODE_MS = 20;

export interface RedisSubscriber {
  /** Whether messages arrive, as far as this process knows. */
  readonly isUp: () => boolean;
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
  readonly channel: string;
  readonly checkIntervalMs: number;
  readonly onMessage: (text: string) => void;
  /** Messages arrive from now on. Earlier ones may have been lost. */
  readonly onUp: () => void;
  /** Messages may be lost from now on. */
  readonly onDown: () => void;
}

/** Starts to connect. Does not throw if the server is down. */
export function createRedisSubscriber(options: RedisSubscriberOptions): RedisSubscriber {
  const { factory, nodes, clock, channel, checkIntervalMs, ...on } = options;
  let isUp = false;
  let unanswered = 0;
  let attempt = 0;
  let cancelRenewal = (): void => undefined;
  let current: Redis | undefined = begin();
  const stopChecking = every(clock, checkIntervalMs, check);

  function begin(): Redis {
    const client = factory.subscriber(nodes(), attempt++);
    const end = (): void => void (cancelRenewal = clock.after(NEXT_NODE_MS, renew));
    const isCurrent = (): boolean => client === current;
    wire(client, channel, isCurrent, { onMessage: on.onMessage, onUp: up, onDown: down, onEnd: end });
    return client;
  }

  function up(): void {
    isUp = true;
    unanswered = 0;
    on.onUp();
  }

  function down(): void {
    const wasUp = isUp;
    isUp = false;
    if (wasUp) on.onDown();
  }

  function renew(): void {
    cancelRenewal();
    unanswered = 0;
    const old = current;
    current = begin();
    old?.disconnect();
    down();
  }

  function check(): void {
    if (unanswered >= MOST_UNANSWERED) return renew();
    unanswered++;
    const answered = (): void => void (unanswered = isUp ? 0 : unanswered);
    current?.ping().then(answered, () => undefined);
  }

  return {
    isUp: () => isUp,
    check,
    renew,
    close() {
      cancelRenewal();
      stopChecking();
      const old = current;
      current = undefined;
      isUp = false;
      old?.disconnect();
    },
  };
}

/** Subscribes after each connect. The callbacks are called only while the client is in use. */
function wire(
  client: Redis,
  channel: string,
  isCurrent: () => boolean,
  on: Pick<RedisSubscriberOptions, "onMessage" | "onUp" | "onDown"> & { readonly onEnd: () => void },
): void {
  const ifCurrent = (callback: () => void) => () => {
    if (isCurrent()) callback();
  };
  // If it fails, the connection was lost again or the user may not subscribe. `check` renews it.
  client.on("ready", () => void client.subscribe(channel).then(ifCurrent(on.onUp), () => undefined));
  client.on("message", (_channel, text: string) => ifCurrent(() => on.onMessage(text))());
  client.on("close", ifCurrent(on.onDown));
  client.on("end", ifCurrent(on.onEnd));
}

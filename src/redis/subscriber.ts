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

/** It starts to connect at once, and does not throw if the server is down. */
export class RedisSubscriber {
  /** Whether messages arrive, as far as this process knows. */
  isUp = false;
  readonly #options: RedisSubscriberOptions;
  readonly #stopChecking: () => void;
  #client: Redis | undefined;
  #unanswered = 0;
  #attempt = 0;
  #cancelRenewal = (): void => undefined;

  constructor(options: RedisSubscriberOptions) {
    this.#options = options;
    this.#client = this.#begin();
    this.#stopChecking = every(options.clock, options.checkIntervalMs, () => this.check());
  }

  /** Subscribes after each connect. The callbacks have no effect when the client was replaced. */
  #begin(): Redis {
    const { factory, nodes, clock, channel, onMessage } = this.#options;
    const client = factory.subscriber(nodes(), this.#attempt++);
    const ifCurrent = (callback: () => void) => () => {
      if (client === this.#client) callback();
    };
    const up = ifCurrent(() => this.#up());
    // If it fails, the connection was lost again or the user may not subscribe. `check` renews it.
    client.on("ready", () => void client.subscribe(channel).then(up, () => undefined));
    client.on("message", (_channel, text: string) => ifCurrent(() => onMessage(text))());
    client.on(
      "close",
      ifCurrent(() => this.#down()),
    );
    const renewSoon = (): void => void (this.#cancelRenewal = clock.after(NEXT_NODE_MS, () => this.renew()));
    return client.on("end", ifCurrent(renewSoon));
  }

  #up(): void {
    this.isUp = true;
    this.#unanswered = 0;
    this.#options.onUp();
  }

  #down(): void {
    const wasUp = this.isUp;
    this.isUp = false;
    if (wasUp) this.#options.onDown();
  }

  /** Replaces the connection. On a Cluster, the new one uses the next node. */
  renew(): void {
    this.#cancelRenewal();
    this.#unanswered = 0;
    const old = this.#client;
    this.#client = this.#begin();
    old?.disconnect();
    this.#down();
  }

  /** Checks immediately whether the server answers. */
  check(): void {
    if (this.#unanswered >= MOST_UNANSWERED) return this.renew();
    this.#unanswered++;
    const answered = (): void => void (this.#unanswered = this.isUp ? 0 : this.#unanswered);
    this.#client?.ping().then(answered, () => undefined);
  }

  close(): void {
    this.#cancelRenewal();
    this.#stopChecking();
    const old = this.#client;
    this.#client = undefined;
    this.isUp = false;
    old?.disconnect();
  }
}

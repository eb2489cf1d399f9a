/**
 * The connection for messages. It uses PUBLISH and SUBSCRIBE, which work in the same way on a single server, on a Cluster and
 * behind Sentinel. It subscribes itself after each connect, because ioredis does not report when it has subscribed again. A
 * PING at intervals finds a connection that no longer answers.
 */
import type { EventEmitter } from "node:events";

import type { Redis } from "ioredis";

import { type Clock, every } from "../process/clock.ts";
import type { Bus } from "./messages.ts";

/** What happens to the connections. */
export interface RedisEvents {
  /** Messages may have been lost. From now on they arrive. */
  gap: [];
  /** Messages may be lost from now on, or Redis has an outage. */
  down: [];
  /** Commands work again after an outage. */
  recovery: [];
}

/** If so many PINGs in a row have no answer, or it has not subscribed meanwhile, the connection is replaced. */
const MOST_UNANSWERED = 2;

interface SubscriberOptions {
  readonly clock: Clock;
  readonly probeIntervalMs: number;
  readonly bus: Bus;
  /** Creates a client. It gets a counter, so that each attempt on a Cluster uses the next node. */
  readonly connect: (attempt: number) => Redis;
  /** Gets the events of this connection. */
  readonly events: EventEmitter<RedisEvents>;
}

/** It starts to connect at once, and does not throw if the server is down. */
export class RedisSubscriber {
  /** Whether messages arrive, as far as this process knows. */
  isUp = false;
  readonly #options: SubscriberOptions;
  readonly #stopChecking: () => void;
  #client: Redis | undefined;
  #unanswered = 0;
  #attempt = 0;

  constructor(options: SubscriberOptions) {
    this.#options = options;
    this.#client = this.#begin();
    this.#stopChecking = every(options.clock, options.probeIntervalMs, () => this.check());
  }

  /** Subscribes after each connect. The callbacks have no effect when the client was replaced. */
  #begin(): Redis {
    const { bus, connect } = this.#options;
    const client = connect(this.#attempt++);
    const ifCurrent = (callback: () => void) => () => {
      if (client === this.#client) callback();
    };
    const up = ifCurrent(() => this.#up());
    // If it fails, the connection was lost again or the user may not subscribe. `check` renews it.
    client.on("ready", () => void client.subscribe(bus.channel).then(up, () => undefined));
    client.on("message", (_channel, text: string) => ifCurrent(() => bus.receive(text))());
    const down = ifCurrent(() => this.#down());
    const renewSoon = ifCurrent(() => (this.#unanswered = MOST_UNANSWERED));
    return client.on("close", down).on("end", renewSoon);
  }

  #up(): void {
    this.isUp = true;
    this.#unanswered = 0;
    this.#options.events.emit("gap");
  }

  #down(): void {
    const wasUp = this.isUp;
    this.isUp = false;
    if (wasUp) this.#options.events.emit("down");
  }

  /** Replaces the connection. On a Cluster, the new one uses the next node. */
  renew(): void {
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
    this.#stopChecking();
    const old = this.#client;
    this.#client = undefined;
    this.isUp = false;
    old?.disconnect();
  }
}

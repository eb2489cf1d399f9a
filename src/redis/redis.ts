/**
 * Redis as one service for the whole process: a connection for commands behind a breaker, and a connection for messages. The
 * cache, the single flight and the rate limiter each add their own scripts and listeners.
 */
import { RedisCommands, type RedisCommandsOptions } from "./commands.ts";
import { Bus, type BusOptions } from "./messages.ts";
import { RedisSubscriber } from "./subscriber.ts";

export interface RedisServiceOptions extends BusOptions, RedisCommandsOptions {}

export class RedisService extends RedisCommands {
  readonly bus: Bus;
  readonly #subscriber: RedisSubscriber;

  constructor(options: RedisServiceOptions) {
    super(options);
    this.bus = new Bus(options, this.run);
    this.#subscriber = new RedisSubscriber(options, this, this.bus);
    this.on("recovery", () => this.#subscriber.check());
  }

  /** Whether messages arrive, as far as this process knows. */
  isListening(): boolean {
    return this.#subscriber.isUp;
  }

  /** Replaces all connections, with the current credentials. */
  readonly renewAll = (): void => {
    this.renew();
    this.#subscriber.renew();
  };

  override close(): void {
    this.#subscriber.close();
    super.close();
  }
}

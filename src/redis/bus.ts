/**
 * The messages among replicas, on one channel. They are sealed, because others may publish there, too. A replica does not
 * get its own messages.
 */
import type { Seal } from "../process/seal.ts";
import type { StoreOperation } from "../telemetry/events.ts";
import type { RunOnRedis } from "./commands.ts";
import { envelopeSchema, type Message, type MessageOf } from "./messages.ts";

export interface Bus {
  readonly channel: string;
  /** @returns the text of a message, for a script that publishes it or a key that keeps it */
  readonly textOf: (message: Message) => string;
  /** @returns the message in a text; `undefined` if this replica or somebody else has written it */
  readonly read: (text: string) => Message | undefined;
  /** Rejects with `StoreUnavailable` or `RedisRefusal`. */
  readonly publish: (operation: StoreOperation, message: Message) => Promise<void>;
  readonly on: <K extends Message["kind"]>(kind: K, listener: (message: MessageOf<K>) => void) => void;
}

export interface BusOptions {
  /** The prefix of the channel: replicas of one account share it. */
  readonly namespace: string;
  /** The namespace of the cache. Replicas with another upstream, and so another cache, share only circuits. */
  readonly cache: string;
  /** The name of this replica. */
  readonly replica: string;
  readonly seal: Seal;
}

const SEALED_AS = "a message";
const MOST_CHARACTERS = 64_000;

/** @returns the bus, and the function that takes the texts on its channel */
export function createBus(
  { namespace, cache, replica, seal }: BusOptions,
  run: RunOnRedis,
): Bus & { readonly receive: (text: string) => void } {
  const channel = `${namespace}messages`;
  const listeners: ((message: Message) => void)[] = [];

  const textOf = (message: Message): string =>
    seal.seal(SEALED_AS, JSON.stringify({ from: replica, cache, message }));

  function read(sealed: string): Message | undefined {
    const text = seal.open(SEALED_AS, sealed, MOST_CHARACTERS);
    if (text === undefined) return undefined;
    const { data } = envelopeSchema.safeParse(JSON.parse(text));
    if (data === undefined || data.from === replica) return undefined;
    return data.cache === cache || data.message.kind === "circuit" ? data.message : undefined;
  }

  return {
    channel,
    textOf,
    read,
    async publish(operation, message) {
      await run(operation, channel, (client) => client.publish(channel, textOf(message)));
    },
    on<K extends Message["kind"]>(kind: K, listener: (message: MessageOf<K>) => void) {
      const isWanted = (message: Message): message is MessageOf<K> => message.kind === kind;
      listeners.push((message) => {
        if (isWanted(message)) listener(message);
      });
    },
    receive(text) {
      const message = read(text);
      if (message !== undefined) for (const listener of listeners) listener(message);
    },
  };
}

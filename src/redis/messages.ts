/**
 * Every message from one replica to the others, with its schema, and the bus that carries them on one channel.
 *
 * Redis may lose messages, so a message only tells sooner what a replica would notice later. A message in another form is
 * ignored, so that replicas of two versions can run together.
 */
import { z } from "zod";

import { PROBLEM_CODES } from "../errors.ts";
import { ORIGINS, RESOURCES } from "../interface/resources.ts";
import type { Seal } from "../process/seal.ts";

/** Why a flight failed. */
const failed = z.object({ code: z.enum(PROBLEM_CODES), retryAfterSeconds: z.number().optional() });

/** A circuit that is not closed. Its instants count from the message, because replicas have different clocks. */
const circuit = z.object({
  cause: z.enum(["too-many-requests", "unavailable", "failing", "unreachable", "credentials"]),
  openedAt: z.number(),
  until: z.number(),
  /** The upstream itself named the time. */
  isAsked: z.boolean(),
  /** When the probe was sent. Absent if none is under way. */
  probedAt: z.number().optional(),
});

const message = z.discriminatedUnion("kind", [
  /** An entry was stored: an older one under the key is out of date. */
  z.object({ kind: z.literal("stored"), key: z.string(), storedAt: z.number() }),
  /** The stream of purges has a new one (cache/store/redis.ts). */
  z.object({ kind: z.literal("purged") }),
  /** The holder of a claim has released it. */
  z.object({
    kind: z.literal("flight-ended"),
    key: z.string(),
    holder: z.string(),
    failed: failed.optional(),
  }),
  /** A circuit opened, was probed, or closed, which is without `circuit`. */
  z.object({
    kind: z.literal("circuit"),
    origin: z.enum(ORIGINS),
    scope: z.enum(["origin", ...RESOURCES]),
    circuit: circuit.optional(),
  }),
  /** The status page of a replica needs the texts of the others (replica-status.ts). */
  z.object({ kind: z.literal("status-wanted"), reader: z.string() }),
]);

export type Message = z.infer<typeof message>;
export type MessageOf<K extends Message["kind"]> = Extract<Message, { kind: K }>;

/** A message with the replica that sends it, and the namespace of its cache. */
const envelopeSchema = z.object({ from: z.string(), cache: z.string(), message });

export interface BusOptions {
  /** The prefix of the channel: replicas of one account share it. */
  readonly namespace: string;
  /** The namespace of the cache. Replicas with another upstream, and so another cache, share only circuits. */
  readonly cache: string;
  /** The name of this replica. */
  readonly replica: string;
  /** Messages are sealed, because others may publish on the channel, too. */
  readonly seal: Seal;
}

const SEALED_AS = "a message";
/** Longer texts are ignored. */
const MOST_CHARACTERS = 64_000;

export type Bus = ReturnType<typeof createBus>;

/** A replica does not get its own messages. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createBus({ namespace, cache, replica, seal }: BusOptions) {
  const listeners: ((message: Message) => void)[] = [];

  /** @returns the message in a text; `undefined` if this replica or somebody else has written it */
  function read(sealed: string): Message | undefined {
    const text = seal.open(SEALED_AS, sealed, MOST_CHARACTERS);
    if (text === undefined) return undefined;
    const { data } = envelopeSchema.safeParse(JSON.parse(text));
    if (data === undefined || data.from === replica) return undefined;
    return data.cache === cache || data.message.kind === "circuit" ? data.message : undefined;
  }

  return {
    channel: `${namespace}messages`,
    read,
    /** @returns the text of a message, for a script that publishes it or a key that keeps it */
    textOf: (content: Message): string =>
      seal.seal(SEALED_AS, JSON.stringify({ from: replica, cache, message: content })),
    on<K extends Message["kind"]>(kind: K, listener: (message: MessageOf<K>) => void): void {
      const isWanted = (one: Message): one is MessageOf<K> => one.kind === kind;
      listeners.push((one) => {
        if (isWanted(one)) listener(one);
      });
    },
    /** Takes a text on the channel. */
    receive(text: string): void {
      const received = read(text);
      if (received !== undefined) for (const listener of listeners) listener(received);
    },
  };
}

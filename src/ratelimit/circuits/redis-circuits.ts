/**
 * Circuits that all replicas share through Redis. Each open circuit is a key that expires, so that a new replica can read
 * it. Each change is published. So is the start of a probe, so that the other replicas send none meanwhile.
 *
 * Circuits are approximate: while Redis does not answer, each replica acts alone.
 */
import type { OriginName } from "../../interface/resources.ts";
import type { Message, MessageOf } from "../../redis/messages.ts";
import type { RedisClient } from "../../redis/connect.ts";
import type { RedisService } from "../../redis/redis.ts";
import { type CircuitScope, scopesOf } from "../../telemetry/events.ts";

/** A circuit that is not closed. Shared ones have instants that count from the message. */
export type OpenCircuit = Readonly<NonNullable<MessageOf<"circuit">["circuit"]>>;
/** `undefined`: the circuit is closed. */
type CircuitListener = (scope: CircuitScope, circuit: OpenCircuit | undefined) => void;

/** The circuits that replicas share. Nothing rejects: without Redis, each replica acts alone. */
export type SharedCircuits = ReturnType<typeof createRedisCircuits>;

/** @param namespace the prefix of all keys */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createRedisCircuits(redis: RedisService, namespace: string, origin: OriginName) {
  const keyOf = (scope: CircuitScope): string => `${namespace}{circuits:${origin}}:${scope}`;

  return {
    publish(scope: CircuitScope, circuit: OpenCircuit | undefined): void {
      const key = keyOf(scope);
      const text = redis.bus.textOf({ kind: "circuit", origin, scope, circuit });
      const published = redis.run("settle", key, async (client) => {
        if (circuit === undefined) await client.del(key);
        else await client.set(key, text, "PX", Math.max(1, Math.ceil(circuit.until)) + FORGET_MS);
        await client.publish(redis.bus.channel, text);
      });
      published.catch(() => undefined);
    },
    subscribe(listen: CircuitListener): void {
      /** @param keptForMs how long Redis still keeps the message. That shows its age. Infinite: it is new */
      function receive(message: Message | undefined, keptForMs = Number.POSITIVE_INFINITY): void {
        if (message?.kind !== "circuit" || message.origin !== origin) return;
        const { scope, circuit } = message;
        listen(scope, circuit && shifted(circuit, Math.min(0, keptForMs - FORGET_MS - circuit.until)));
      }
      async function readAll(): Promise<void> {
        for (const key of scopesOf(origin).map(keyOf)) {
          const read = (client: RedisClient) => Promise.all([client.get(key), client.pttl(key)]);
          const [text, keptForMs] = await redis.run("look", key, read).catch(() => [null, 0] as const);
          if (text !== null) receive(redis.bus.read(text), keptForMs);
        }
      }
      redis.bus.on("circuit", receive);
      redis.on("gap", () => void readAll()).on("recovery", () => void readAll());
      void readAll();
    },
  };
}

/** How long a half-open circuit is remembered, until a probe has succeeded. */
const FORGET_MS = 60_000;

/** @returns the circuit with each instant later by `byMs` */
export function shifted(circuit: OpenCircuit, byMs: number): OpenCircuit {
  const probedAt = circuit.probedAt === undefined ? undefined : circuit.probedAt + byMs;
  return { ...circuit, openedAt: circuit.openedAt + byMs, until: circuit.until + byMs, probedAt };
}

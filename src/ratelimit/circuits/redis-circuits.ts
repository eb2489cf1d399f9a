/**
 * Circuits that all replicas share through Redis. Each open circuit is a key that expires, so that a new replica can read
 * it. Each change is published. So is the start of a probe, so that the other replicas send none meanwhile.
 *
 * Circuits are approximate: while Redis does not answer, each replica acts alone.
 */
import type { OriginName } from "../../interface/resources.ts";
import type { Message } from "../../redis/messages.ts";
import type { RedisService } from "../../redis/redis.ts";
import type { CircuitScope } from "./opening.ts";
import type { CircuitReport, SharedCircuits } from "./circuits.ts";
import { scopesOf } from "./outage-text.ts";

/** @param namespace the prefix of all keys */
export function createRedisCircuits(
  redis: RedisService,
  namespace: string,
  origin: OriginName,
): SharedCircuits {
  const keyOf = (scope: CircuitScope): string => `${namespace}{circuits:${origin}}:${scope}`;
  const keys = scopesOf(origin).map(keyOf);
  let listener = (_scope: CircuitScope, _report: CircuitReport | undefined): void => undefined;

  function receive(message: Message | undefined): void {
    if (message?.kind === "circuit" && message.origin === origin) listener(message.scope, message.circuit);
  }
  async function readAll(): Promise<void> {
    const open = await redis.run("look", keyOf("origin"), (client) => client.mget(keys)).catch(() => []);
    for (const text of open) if (text !== null) receive(redis.bus.read(text));
  }

  redis.bus.on("circuit", receive);
  redis.on("gap", () => void readAll()).on("recovery", () => void readAll());

  return {
    publish(scope, circuit) {
      const text = redis.bus.textOf({ kind: "circuit", origin, scope, circuit });
      const key = keyOf(scope);
      const published = redis.run("settle", key, async (client) => {
        if (circuit === undefined) await client.del(key);
        else await client.set(key, text, "PX", Math.max(1, Math.ceil(circuit.openForMs)) + FORGET_MS);
        await client.publish(redis.bus.channel, text);
      });
      published.catch(() => undefined);
    },
    subscribe(listen) {
      listener = listen;
      void readAll();
    },
  };
}

/** How long a half-open circuit is remembered, until a probe has succeeded. */
const FORGET_MS = 60_000;

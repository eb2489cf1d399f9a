/**
 * Circuits that all replicas share through Redis. Each open circuit is a key that expires, so that a new replica can read it.
 * Changes are published: also the start of a probe, so that the others send none meanwhile.
 *
 * Circuits are approximate: while Redis does not answer, each replica acts alone.
 */
import { originOf, RESOURCES, type OriginName } from "../../interface/resources.ts";
import type { RedisService } from "../../redis/service.ts";
import type { CircuitScope } from "./opening.ts";
import type { CircuitReport, SharedCircuits } from "./circuits.ts";

interface Message {
  readonly from: string;
  readonly scope: CircuitScope;
  /** Absent: the circuit is closed. */
  readonly circuit?: CircuitReport;
}

export interface RedisCircuitsOptions {
  readonly redis: RedisService;
  /** The prefix of all keys and of the channel. */
  readonly namespace: string;
  readonly origin: OriginName;
  /** The name of this process. It ignores its own messages. */
  readonly process: string;
}

export function createRedisCircuits(options: RedisCircuitsOptions): SharedCircuits {
  const { redis, namespace, origin, process } = options;
  const keyOf = (scope: CircuitScope): string => `${namespace}{circuits:${origin}}:${scope}`;
  const keys = ["origin" as const, ...RESOURCES.filter((one) => originOf(one) === origin)].map(keyOf);
  const channel = `${namespace}circuits:${origin}`;
  let listener = (_scope: CircuitScope, _report: CircuitReport | undefined): void => undefined;

  function receive(text: string): void {
    const message = readMessage(text);
    if (message !== undefined && message.from !== process) listener(message.scope, message.circuit);
  }
  async function readAll(): Promise<void> {
    const open = await redis.run("look", keyOf("origin"), (client) => client.mget(keys)).catch(() => []);
    for (const text of open) if (text !== null) receive(text);
  }

  redis.subscribe({
    channels: [channel],
    onMessage: (_channel, text) => receive(text),
    onGap: () => void readAll(),
    onRecovery: () => void readAll(),
  });

  return {
    publish(scope, circuit) {
      const text = JSON.stringify({ from: process, scope, circuit });
      const key = keyOf(scope);
      const published = redis.run("settle", key, async (client) => {
        if (circuit === undefined) await client.del(key);
        else await client.set(key, text, "PX", Math.max(1, Math.ceil(circuit.openForMs)) + FORGET_MS);
        await client.publish(channel, text);
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

function readMessage(text: string): Message | undefined {
  try {
    const message: Message = JSON.parse(text);
    return typeof message.scope === "string" ? message : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Circuits that all replicas share through Redis. An open circuit is a field of a hash, so that a new replica learns of
 * it; changes are published. The right to probe is a key that expires.
 *
 * Circuits are approximate: without an answer from Redis, each replica acts alone.
 */
import type { RedisService } from "../redis/service.ts";
import type { OriginName } from "../types.ts";
import type { CircuitScope } from "./circuit-breaker.ts";
import type { CircuitNews, SharedCircuits } from "./circuits.ts";

interface Message {
  readonly from: string;
  readonly scope: CircuitScope;
  /** Absent: the circuit is closed. */
  readonly circuit?: CircuitNews;
}

export interface RedisCircuitsOptions {
  readonly redis: RedisService;
  /** The prefix of all keys and of the channel. */
  readonly namespace: string;
  readonly origin: OriginName;
  /** The name of this process: it ignores its own messages. */
  readonly process: string;
}

export function createRedisCircuits(options: RedisCircuitsOptions): SharedCircuits {
  const { redis, namespace, origin, process } = options;
  const prefix = `${namespace}{circuits:${origin}}`;
  const key = `${prefix}:open`;
  const probeKey = (scope: CircuitScope): string => `${prefix}:probe:${scope}`;
  const channel = `${namespace}circuits:${origin}`;
  let listener = (_scope: CircuitScope, _news: CircuitNews | undefined): void => undefined;

  function hear(text: string): void {
    const message = readMessage(text);
    if (message !== undefined && message.from !== process) listener(message.scope, message.circuit);
  }
  async function readAll(): Promise<void> {
    const open = await redis.run("look", key, (client) => client.hgetall(key)).catch(() => ({}));
    for (const text of Object.values(open)) hear(text);
  }

  redis.subscribe({
    channels: [channel],
    onMessage: (_channel, text) => hear(text),
    onGap: () => void readAll(),
    onRecovery: () => void readAll(),
  });

  return {
    publish(scope, circuit) {
      const text = JSON.stringify({ from: process, scope, circuit });
      const tell = redis.run("settle", key, async (client) => {
        if (circuit === undefined) await client.hdel(key, scope);
        else {
          await client.hset(key, scope, text);
          await client.pexpire(key, Math.max(1, Math.ceil(circuit.openForMs)) + FORGET_MS);
        }
        await client.del(probeKey(scope));
        await client.publish(channel, text);
      });
      tell.catch(() => undefined);
    },
    subscribe(listen) {
      listener = listen;
      void readAll();
    },
    async claimProbe(scope, forMs) {
      const name = probeKey(scope);
      const claim = redis.run("claim", name, (client) => client.set(name, process, "PX", forMs, "NX"));
      return await claim.then(
        (answer) => answer === "OK",
        () => true,
      );
    },
  };
}

/** How long after its end an open circuit is remembered: it is half-open until a probe has succeeded. */
const FORGET_MS = 60_000;

function readMessage(text: string): Message | undefined {
  try {
    const message: Message = JSON.parse(text);
    return typeof message.scope === "string" ? message : undefined;
  } catch {
    return undefined;
  }
}

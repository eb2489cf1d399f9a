/**
 * Circuits that all replicas share through Redis. Each open circuit is a field of a hash, so that a new replica can read
 * it. Changes are published. The right to send the probe is a key that expires.
 *
 * Circuits are approximate: while Redis does not answer, each replica acts alone.
 */
import type { RedisService } from "../redis/service.ts";
import type { OriginName } from "../types.ts";
import type { CircuitScope } from "./circuit-breaker.ts";
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
  const prefix = `${namespace}{circuits:${origin}}`;
  const key = `${prefix}:open`;
  const probeKey = (scope: CircuitScope): string => `${prefix}:probe:${scope}`;
  const channel = `${namespace}circuits:${origin}`;
  let listener = (_scope: CircuitScope, _report: CircuitReport | undefined): void => undefined;

  function receive(text: string): void {
    const message = readMessage(text);
    if (message !== undefined && message.from !== process) listener(message.scope, message.circuit);
  }
  async function readAll(): Promise<void> {
    const open = await redis.run("look", key, (client) => client.hgetall(key)).catch(() => ({}));
    for (const text of Object.values(open)) receive(text);
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
      const published = redis.run("settle", key, async (client) => {
        if (circuit === undefined) await client.hdel(key, scope);
        else {
          await client.hset(key, scope, text);
          await client.pexpire(key, Math.max(1, Math.ceil(circuit.openForMs)) + FORGET_MS);
        }
        await client.del(probeKey(scope));
        await client.publish(channel, text);
      });
      published.catch(() => undefined);
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

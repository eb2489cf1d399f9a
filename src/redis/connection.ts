/**
 * The connection for commands. ioredis reconnects after a lost connection.
 *
 * ioredis cannot notice a frozen server, a half-open socket or a master that became a replica, because the socket stays
 * open. In these cases, the breaker calls `renew`, which replaces the client (test/faults/redis.test.ts).
 */
import { knownNodes, type RedisAddress, type RedisClient, type RedisScripts } from "./connect.ts";

export interface RedisConnection {
  /**
   * Resolves with the client as soon as the client is ready for commands. Rejects when an attempt to connect fails; the
   * client then keeps trying. Stays pending while a server accepts the connection but does not answer.
   */
  readonly client: () => Promise<RedisClient>;
  /** Adds scripts to the current client. */
  readonly defineScripts: (scripts: RedisScripts) => void;
  /** The known nodes of a Cluster. */
  readonly nodes: () => readonly RedisAddress[];
  /** Replaces the client with a new one, in any state. */
  readonly renew: () => void;
  readonly close: () => void;
}

/** Starts to connect. Does not throw if the server is down. */
export function connectRedis(create: () => RedisClient, onReady: () => void): RedisConnection {
  let waiting = newWaiting();
  let current = begin();

  function begin(): RedisClient {
    const client = create();
    let lastError: Error | undefined;
    client.on("ready", () => {
      if (client !== current) return;
      waiting.resolve(client);
      waiting = newWaiting();
      onReady();
    });
    client.on("error", (error: Error) => {
      lastError = error;
      failWaiting(client, error);
    });
    client.on("close", () => failWaiting(client, lastError));
    return client;
  }

  function failWaiting(client: RedisClient, error: Error | undefined): void {
    if (client !== current) return;
    waiting.reject(connectionError(error));
    waiting = newWaiting();
  }

  return {
    client: async () => (current.status === "ready" ? current : await waiting.promise),
    defineScripts(scripts) {
      for (const [name, definition] of Object.entries(scripts)) current.defineCommand(name, definition);
    },
    nodes: () => knownNodes(current),
    renew() {
      const old = current;
      current = begin();
      old.disconnect();
    },
    close: () => current.disconnect(),
  };
}

function newWaiting(): PromiseWithResolvers<RedisClient> {
  const waiting = Promise.withResolvers<RedisClient>();
  // There may be no waiter; then the rejection must not count as unhandled.
  waiting.promise.catch(() => undefined);
  return waiting;
}

/** @returns an error for the log that describes a lost connection */
export function connectionError(
  error: (Error & { code?: string; lastNodeError?: Error }) | undefined,
): Error {
  const cause = error?.lastNodeError ?? error;
  // When every address of a host fails, Node's error has a code but no message.
  const message = cause?.message || error?.code || "the connection was closed";
  return new Error(message, { cause: error });
}

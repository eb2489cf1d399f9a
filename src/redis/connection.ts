/**
 * A connection to Redis that is always there or about to be: a client that ends is replaced by a new one.
 */
import type { Clock } from "../process/clock.ts";
import { knownNodes, type RedisAddress, type RedisClient, type RedisFactory } from "./connect.ts";

const FIRST_RETRY_MS = 10;
const LONGEST_RETRY_MS = 500;

export interface RedisConnection {
  /**
   * The client, once it takes commands. Rejects as soon as connecting has failed, and it is tried again
   * all the same; where the server does not answer at all, the promise stays pending.
   */
  readonly client: () => Promise<RedisClient>;
  /** The nodes of a Cluster, as far as they are known by now. */
  readonly nodes: () => readonly RedisAddress[];
  /** Drops the client, whatever it is doing, and begins with a new one at once. */
  readonly renew: () => void;
  readonly close: () => void;
}

export interface RedisConnectionOptions {
  readonly factory: RedisFactory;
  readonly clock: Clock;
  readonly onReady: () => void;
}

/** Begins to connect; never throws because a server is down. */
export function connectRedis({ factory, clock, onReady }: RedisConnectionOptions): RedisConnection {
  let ready: Promise<RedisClient> | undefined;
  let waiting = newWaiting();
  const kept = keepConnected({
    clock,
    create: factory.client,
    onReady: (client) => {
      ready = Promise.resolve(client);
      waiting.resolve(client);
      onReady();
    },
    onEnd: (error) => {
      ready = undefined;
      waiting.reject(error);
      waiting = newWaiting();
    },
  });
  return {
    client: () => ready ?? waiting.promise,
    nodes: () => knownNodes(kept.client()),
    renew: kept.renew,
    close: kept.close,
  };
}

function newWaiting(): PromiseWithResolvers<RedisClient> {
  const waiting = Promise.withResolvers<RedisClient>();
  // Nobody may be waiting.
  waiting.promise.catch(() => undefined);
  return waiting;
}

interface KeepConnectedOptions<C extends RedisClient> {
  readonly clock: Clock;
  /** @param attempt counts up */
  readonly create: (attempt: number) => C;
  readonly onReady: (client: C) => void;
  /** A client has come to its end, connected or not, and the next will be made in a moment. */
  readonly onEnd: (error: Error) => void;
}

interface KeptConnection<C> {
  /** The current client, ready or not. */
  readonly client: () => C | undefined;
  readonly renew: () => void;
  readonly close: () => void;
}

/** Replaces a client by a new one whenever it ends, at first soon, then at most every half second. */
export function keepConnected<C extends RedisClient>(options: KeepConnectedOptions<C>): KeptConnection<C> {
  const { clock, create, onReady, onEnd } = options;
  let current: C | undefined;
  let cancelRetry = (): void => undefined;
  let attempt = 0;
  let failuresInARow = 0;

  function begin(): void {
    const client = create(attempt++);
    const begunAt = clock.now();
    let lastError: Error | undefined;
    current = client;
    client.on("error", (error: Error) => (lastError = error));
    client.on("ready", () => {
      if (client === current) onReady(client);
    });
    client.on("end", () => {
      if (client !== current) return;
      drop(connectionError(lastError));
      // A server that takes a connection only to close it is as good as down.
      if (clock.now() - begunAt > LONGEST_RETRY_MS) failuresInARow = 0;
      cancelRetry = clock.after(Math.min(FIRST_RETRY_MS * 2 ** failuresInARow++, LONGEST_RETRY_MS), begin);
    });
  }

  function drop(error: Error): void {
    cancelRetry();
    const dropped = current;
    current = undefined;
    if (dropped === undefined) return;
    dropped.disconnect();
    onEnd(error);
  }

  begin();
  return {
    client: () => current,
    renew() {
      drop(new Error("the connection was given up"));
      begin();
    },
    close: () => drop(new Error("closed")),
  };
}

/** Says what became of a connection, in words that can be logged. */
function connectionError(error: (Error & { code?: string; lastNodeError?: Error }) | undefined): Error {
  const telling = error?.lastNodeError ?? error;
  // Where all addresses of a host have failed, Node's error has a code but no message.
  const message = telling?.message || error?.code || "the connection was closed";
  return new Error(message, { cause: error });
}

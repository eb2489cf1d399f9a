/**
 * The connection for messages. It uses PUBLISH and SUBSCRIBE, which work in the same way on a single server, on a Cluster and
 * behind Sentinel. It subscribes itself after each connect, because ioredis does not report when it has subscribed again. A
 * PING at intervals finds a connection that no longer answers.
 */
import type { EventEmitter } from "node:events";

import type { Redis } from "ioredis";

import type { Bus } from "./messages.ts";

/** What happens to the connections. */
export interface RedisEvents {
  /** Messages may have been lost. From now on they arrive. */
  gap: [];
  /** Messages may be lost from now on, or Redis has an outage. */
  down: [];
  /** Commands work again after an outage. */
  recovery: [];
}

/** If so many PINGs in a row have no answer, or it has not subscribed meanwhile, the connection is replaced. */
const MOST_UNANSWERED = 2;

/**
 * Starts to connect at once, and does not throw if the server is down.
 * @param connect creates a client. It gets a counter, so that each attempt on a Cluster uses the next node
 * @param events gets the events of this connection
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createSubscriber(
  bus: Bus,
  connect: (attempt: number) => Redis,
  events: EventEmitter<RedisEvents>,
) {
  let isUp = false;
  let unanswered = 0;
  let attempt = 0;
  let client = begin();

  /** Subscribes after each connect. The callbacks have no effect when the client was replaced. */
  function begin(): Redis {
    const begun = connect(attempt++);
    const ifCurrent = (callback: () => void) => () => {
      if (begun === client) callback();
    };
    // If it fails, the connection was lost again or the user may not subscribe. `check` renews it.
    begun.on("ready", () => void begun.subscribe(bus.channel).then(ifCurrent(up), () => undefined));
    begun.on("message", (_channel, text: string) => ifCurrent(() => bus.receive(text))());
    const ended = ifCurrent(() => (unanswered = MOST_UNANSWERED));
    return begun.on("close", ifCurrent(down)).on("end", ended);
  }

  function up(): void {
    isUp = true;
    unanswered = 0;
    events.emit("gap");
  }

  function down(): void {
    const wasUp = isUp;
    isUp = false;
    if (wasUp) events.emit("down");
  }

  /** Replaces the connection. On a Cluster, the new one uses the next node. */
  function renew(): void {
    unanswered = 0;
    const old = client;
    client = begin();
    old.disconnect();
    down();
  }

  return {
    /** Whether messages arrive, as far as this process knows. */
    isUp: (): boolean => isUp,
    renew,
    /** Checks whether the server answers. Call it at intervals. */
    check: (): void => {
      if (unanswered >= MOST_UNANSWERED) return renew();
      unanswered++;
      const answered = (): void => void (unanswered = isUp ? 0 : unanswered);
      client.ping().then(answered, () => undefined);
    },
    close(): void {
      isUp = false;
      client.disconnect();
    },
  };
}

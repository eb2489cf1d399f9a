/**
 * The ear to what other replicas say: a subscription that is known to work, because this replica keeps
 * sending itself a beat through it, and that says when it may have missed something.
 */
import type { Clock } from "../process/clock.ts";
import { subscribeRedis } from "./subscription.ts";
import type { RedisFactory } from "./connect.ts";
import { NAMESPACE } from "../query/key.ts";
import type { RedisCalls } from "./commands.ts";
import { CHANNEL } from "../cache/store/redis-messages.ts";

/** How often purges are read although no message says so. */
const REREAD_MS = 10_000;
/** A beat that was sent is heard within so many command timeouts, or the subscription is deaf. */
const BEAT_TIMEOUTS = 4;
/** A subscription that takes longer than so many intervals is begun anew. */
const LONGEST_SUBSCRIBING = 2;

export interface RedisListener {
  /** Whether messages are being received, as far as is known. */
  readonly isUp: () => boolean;
  /** Tells all there is to tell again; nothing where that is about to come anyway. */
  readonly replay: () => void;
  /** Finds out at once whether the subscription works. */
  readonly check: () => void;
  readonly close: () => void;
}

export interface RedisListenerOptions {
  readonly factory: RedisFactory;
  readonly calls: RedisCalls;
  readonly clock: Clock;
  readonly replica: string;
  readonly commandTimeoutMs: number;
  /** How often a beat is sent, in milliseconds. */
  readonly intervalMs: number;
  /** Channels of others who share this subscription. */
  readonly channels: readonly string[];
  /** Told of every message that is for all replicas. */
  readonly onMessage: (channel: string, text: string) => void;
  /** Messages may have been lost; from now on they arrive. */
  readonly onGap: () => void;
  /** Messages may be lost from now on. */
  readonly onDown: () => void;
  /** Reads the purges and passes them on: all, or those not yet known. */
  readonly readPurges: (which: "all" | "news") => Promise<void>;
}

export function createRedisListener(options: RedisListenerOptions): RedisListener {
  const { factory, calls, clock, replica, intervalMs } = options;
  const beatChannel = `${NAMESPACE}beat:${replica}`;
  const subscription = subscribeRedis({
    factory,
    nodes: calls.nodes,
    channels: [CHANNEL, beatChannel, ...options.channels],
    clock,
    onMessage: (channel, text) =>
      channel === beatChannel ? heart.heard(text) : options.onMessage(channel, text),
    onUp() {
      heart.startAfresh();
      replay();
    },
    onDown: options.onDown,
  });
  const heart = createHeart(options, beatChannel, subscription.renew);
  let intervalsDown = 0;
  let isReplayDue = false;
  let rereadAt = clock.now() + REREAD_MS;
  let cancelNext = clock.after(intervalMs, onInterval);

  function replay(): void {
    if (!subscription.isUp()) return;
    options.onGap();
    isReplayDue = true;
    void readPurges();
  }

  async function readPurges(): Promise<void> {
    try {
      await options.readPurges(isReplayDue ? "all" : "news");
      isReplayDue = false;
      rereadAt = clock.now() + REREAD_MS;
    } catch {
      // Redis is out of order: due again when it is back, or after the next interval.
    }
  }

  function check(): void {
    if (isReplayDue || clock.now() >= rereadAt) void readPurges();
    if (subscription.isUp()) {
      intervalsDown = 0;
      void heart.beat();
    } else if (++intervalsDown > LONGEST_SUBSCRIBING) {
      intervalsDown = 0;
      subscription.renew();
    }
  }

  function onInterval(): void {
    cancelNext = clock.after(intervalMs, onInterval);
    check();
  }

  return {
    isUp: subscription.isUp,
    replay,
    check,
    close() {
      cancelNext();
      heart.stop();
      subscription.close();
    },
  };
}

interface Heart {
  readonly beat: () => Promise<void>;
  readonly heard: (text: string) => void;
  /** What was sent so far may go unheard. */
  readonly startAfresh: () => void;
  readonly stop: () => void;
}

function createHeart(
  { calls, clock, commandTimeoutMs }: RedisListenerOptions,
  channel: string,
  onDeaf: () => void,
): Heart {
  let beats = 0;
  let lastHeard = 0;
  let isStopped = false;
  let cancelListening: (() => void) | undefined;
  return {
    async beat() {
      const sent = ++beats;
      try {
        await calls.run("beat", channel, (client) => client.publish(channel, String(sent)));
      } catch {
        // Not sent, so nothing can be concluded.
        return;
      }
      // One at a time: a later beat does not put off the verdict on an earlier one.
      if (isStopped || cancelListening !== undefined) return;
      cancelListening = clock.after(BEAT_TIMEOUTS * commandTimeoutMs, () => {
        cancelListening = undefined;
        if (lastHeard < sent) onDeaf();
      });
    },
    heard: (text) => void (lastHeard = Number(text)),
    startAfresh: () => void (lastHeard = beats),
    stop() {
      isStopped = true;
      cancelListening?.();
    },
  };
}

/**
 * A board on which processes show each other a text, such as their part of the status page. Nothing is written unless a
 * process looks: looking writes its own text, and asks the others to do the same.
 *
 * | Key or channel   | Contents                                                     |
 * |------------------|--------------------------------------------------------------|
 * | `<ns>board`      | a hash: one field for each process. It expires by itself.    |
 * | `<ns>board:look` | a message: a process is looking                              |
 */
import type { Clock } from "../process/clock.ts";
import type { RedisService } from "./service.ts";

export interface BoardOptions {
  readonly redis: Pick<RedisService, "run" | "subscribe">;
  readonly clock: Clock;
  readonly namespace: string;
  /** A name for this process that no other has. */
  readonly process: string;
}

export interface Board {
  /** @param write writes the text of this process. It must differ from all texts before. */
  readonly show: (write: () => string) => void;
  /** Shows the own text. @returns the texts of the other processes; rejects with `StoreUnavailable` without Redis */
  readonly look: () => Promise<readonly string[]>;
}

/** The board is empty when nobody has looked for so long. */
const KEPT_MS = 10_000;
/** A text that stays the same for so long is of a process that has ended. */
const SILENT_MS = 5_000;
/** Other processes may look more often. */
const WRITE_EVERY_MS = 500;

export function createBoard({ redis, clock, namespace, process }: BoardOptions): Board {
  const key = `${namespace}board`;
  const channel = `${key}:look`;
  const seen = new Map<string, { readonly text: string; readonly at: number }>();
  let write = (): string => "";
  let writtenAt = Number.NEGATIVE_INFINITY;

  async function post(): Promise<void> {
    const text = write();
    writtenAt = clock.monotonic();
    await redis.run("status", key, async (client) => {
      await client.hset(key, process, text);
      await client.pexpire(key, KEPT_MS);
    });
  }

  redis.subscribe({
    channels: [channel],
    onMessage(_channel, from) {
      if (from === process || clock.monotonic() < writtenAt + WRITE_EVERY_MS) return;
      // A look without this text shows fewer processes, and says how many there are.
      post().catch(() => undefined);
    },
  });

  /** @returns whether the process of a text is alive */
  function isAlive(name: string, text: string): boolean {
    const now = clock.monotonic();
    const before = seen.get(name);
    if (before?.text !== text) seen.set(name, { text, at: now });
    return before === undefined || before.text !== text || now < before.at + SILENT_MS;
  }

  return {
    show: (how) => void (write = how),
    async look() {
      await post();
      const texts = await redis.run("status", key, async (client) => {
        await client.publish(channel, process);
        return await client.hgetall(key);
      });
      for (const name of seen.keys()) if (texts[name] === undefined) seen.delete(name);
      const alive = Object.entries(texts).filter(([name, text]) => name !== process && isAlive(name, text));
      return alive.map(([, text]) => text);
    },
  };
}

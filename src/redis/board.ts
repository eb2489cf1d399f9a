/**
 * A board in Redis: each process reads a text from every other process, for example its part of the status page. A process
 * writes its text only when one of them reads the board: the reader asks the others to write theirs.
 *
 * | Key or channel          | Contents                                                  |
 * |-------------------------|-----------------------------------------------------------|
 * | `<ns>board:<name>`      | a hash with one field for each process. It expires.       |
 * | `<ns>board:<name>:look` | a message: a process reads the board                      |
 */
import type { Clock } from "../process/clock.ts";
import type { Seal } from "../process/seal.ts";
import type { RedisService } from "./service.ts";

export interface BoardOptions {
  readonly redis: Pick<RedisService, "run" | "subscribe">;
  readonly clock: Clock;
  readonly namespace: string;
  /** The subject of the texts. */
  readonly name: string;
  /** A unique name for this process. */
  readonly process: string;
  /** Authenticates the texts, because others may write to Redis, too. */
  readonly seal: Seal;
}

export interface Board {
  /** @param write returns the text of this process. Each text must differ from all earlier ones. */
  readonly show: (write: () => string) => void;
  /** Writes this process' text. @returns the texts of the other processes; rejects with `StoreUnavailable` without Redis */
  readonly look: () => Promise<readonly string[]>;
}

/** The board expires if no process has read it for this long. */
const KEPT_MS = 10_000;
/** If a text stays the same for this long, its process has ended. */
const SILENT_MS = 5_000;
/** Longer texts are ignored. */
const MOST_CHARACTERS = 2_000_000;
/** The shortest time between two writes for other readers. */
const WRITE_EVERY_MS = 500;

export function createBoard({ redis, clock, namespace, name, process, seal }: BoardOptions): Board {
  const key = `${namespace}board:${name}`;
  const channel = `${key}:look`;
  const seen = new Map<string, { readonly text: string; readonly at: number }>();
  let write = (): string => "";
  let writtenAt = Number.NEGATIVE_INFINITY;

  async function post(): Promise<void> {
    const text = seal.seal(`${name} ${process}`, write());
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
      // The reader then shows fewer processes, and says how many there are.
      post().catch(() => undefined);
    },
  });

  /** @returns whether the process of a text is alive */
  function isAlive(field: string, text: string): boolean {
    const now = clock.monotonic();
    const before = seen.get(field);
    if (before?.text !== text) seen.set(field, { text, at: now });
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
      for (const field of seen.keys()) if (texts[field] === undefined) seen.delete(field);
      const alive = Object.entries(texts).filter(
        ([field, text]) => field !== process && isAlive(field, text),
      );
      return alive.flatMap(([field, sealed]) => {
        const text = seal.open(`${name} ${field}`, sealed, MOST_CHARACTERS);
        return text === undefined ? [] : [text];
      });
    },
  };
}

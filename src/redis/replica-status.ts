/**
 * The parts of the status page from all replicas: each one reads the texts of the others in Redis. A replica writes its text
 * only when one of them needs it: the reader asks the others to write theirs.
 *
 * `<ns>status` is a hash with one field for each replica. It expires.
 */
import { pause } from "../process/clock.ts";
import type { RedisService } from "./redis.ts";

/** The texts expire if no replica has read them for this long. */
const KEPT_MS = 10_000;
/** If a text stays the same for this long, its process has ended. */
const SILENT_MS = 5_000;
/** Longer texts are ignored. */
const MOST_CHARACTERS = 2_000_000;
/** The other replicas write their texts within this time. */
const OTHERS_MS = 200;
/** The shortest time between two writes for other readers. */
const WRITE_EVERY_MS = 500;

export type StatusTexts = ReturnType<typeof createStatusTexts>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createStatusTexts(redis: RedisService) {
  const { clock, cache, replica, seal } = redis.options;
  const key = `${cache}status`;
  /** Each field has a seal of its own, so a text that is copied to another field is not valid there. */
  const sealedAs = (field: string): string => `${key} ${field}`;
  /** By replica: its last text, and when it was new. */
  const seen = new Map<string, { readonly text: string; readonly at: number }>();
  let write = (): string => "";
  let writtenAt = Number.NEGATIVE_INFINITY;

  async function post(): Promise<void> {
    const text = seal.seal(sealedAs(replica), write());
    writtenAt = clock.monotonic();
    await redis.run("status", key, async (client) => {
      await client.hset(key, replica, text);
      await client.pexpire(key, KEPT_MS);
    });
  }

  /** @returns whether the process of a text is alive */
  function isAlive(field: string, text: string): boolean {
    const now = clock.monotonic();
    const before = seen.get(field);
    if (before?.text === text) return now < before.at + SILENT_MS;
    seen.set(field, { text, at: now });
    return true;
  }

  redis.bus.on("status-wanted", () => {
    // If it fails, the reader shows fewer processes, and says how many there are.
    if (clock.monotonic() >= writtenAt + WRITE_EVERY_MS) post().catch(() => undefined);
  });

  return {
    /** @param newWrite returns the text of this replica. Each text must differ from all earlier ones. */
    show(newWrite: () => string): void {
      write = newWrite;
    },
    /** Writes this replica's text. @returns the new texts of the others; rejects with `StoreUnavailable` without Redis */
    async look(): Promise<readonly string[]> {
      await post();
      await redis.publish("status", { kind: "status-wanted" });
      await pause(clock, OTHERS_MS);
      const texts = await redis.run("status", key, (client) => client.hgetall(key));
      for (const field of seen.keys()) if (texts[field] === undefined) seen.delete(field);
      return Object.entries(texts).flatMap(([field, text]) => {
        const isOther = field !== replica && isAlive(field, text);
        return (isOther ? seal.open(sealedAs(field), text, MOST_CHARACTERS) : undefined) ?? [];
      });
    },
  };
}

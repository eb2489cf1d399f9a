/**
 * The parts of the status page from all replicas. A reader names a new key in a message. The other replicas write their texts
 * there, one field each, and the reader takes what has arrived after a short wait. The key expires.
 */
import { pause } from "../process/clock.ts";
import type { RedisService } from "./redis.ts";

/** The texts expire after this time. */
const KEPT_MS = 10_000;
/** Longer texts are ignored. */
const MOST_CHARACTERS = 2_000_000;
/** The other replicas write their texts within this time. */
const OTHERS_MS = 200;

export type StatusTexts = ReturnType<typeof createStatusTexts>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createStatusTexts(redis: RedisService) {
  const { clock, cache, replica, seal } = redis.options;
  const keyOf = (reader: string): string => `${cache}status:${reader}`;
  /** Each field has a seal of its own, so a text that is copied to another field is not valid there. */
  const sealedAs = (key: string, field: string): string => `${key} ${field}`;
  let write = (): string => "";
  let looks = 0;

  async function post(key: string): Promise<void> {
    const text = seal.seal(sealedAs(key, replica), write());
    await redis.run("status", key, async (client) => {
      await client.hset(key, replica, text);
      await client.pexpire(key, KEPT_MS);
    });
  }

  // If it fails, the reader shows fewer processes, and says how many there are.
  redis.bus.on("status-wanted", ({ reader }) => void post(keyOf(reader)).catch(() => undefined));

  return {
    /** @param newWrite returns the text of this replica */
    show(newWrite: () => string): void {
      write = newWrite;
    },
    /** @returns the texts of the other replicas; rejects with `StoreUnavailable` without Redis */
    async look(): Promise<readonly string[]> {
      const reader = `${replica}:${looks++}`;
      const key = keyOf(reader);
      await redis.publish("status", { kind: "status-wanted", reader });
      await pause(clock, OTHERS_MS);
      const texts = await redis.run("status", key, (client) => client.hgetall(key));
      return Object.entries(texts).flatMap(
        ([field, text]) => seal.open(sealedAs(key, field), text, MOST_CHARACTERS) ?? [],
      );
    },
  };
}

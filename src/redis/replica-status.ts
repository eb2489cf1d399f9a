/**
 * The parts of the status page from all replicas: each one reads the texts of the others in Redis. A replica writes its text
 * only when one of them needs it: the reader asks the others to write theirs.
 *
 * `<ns>status` is a hash with one field for each replica. It expires.
 */
import type { Clock } from "../process/clock.ts";
import type { Seal } from "../process/seal.ts";
import type { RedisService } from "./service.ts";

export interface StatusTextsOptions {
  readonly redis: Pick<RedisService, "run" | "bus">;
  readonly clock: Clock;
  readonly namespace: string;
  /** The name of this replica. */
  readonly replica: string;
  /** Authenticates the texts, because others may write to Redis, too. */
  readonly seal: Seal;
}

export interface StatusTexts {
  /** @param write returns the text of this replica. Each text must differ from all earlier ones. */
  readonly show: (write: () => string) => void;
  /** Writes this replica's text. @returns the texts of the other replicas; rejects with `StoreUnavailable` without Redis */
  readonly look: () => Promise<readonly string[]>;
}

/** The texts expire if no replica has read them for this long. */
const KEPT_MS = 10_000;
/** If a text stays the same for this long, its process has ended. */
const SILENT_MS = 5_000;
/** Longer texts are ignored. */
const MOST_CHARACTERS = 2_000_000;
/** The shortest time between two writes for other readers. */
const WRITE_EVERY_MS = 500;

export function createStatusTexts({
  redis,
  clock,
  namespace,
  replica,
  seal,
}: StatusTextsOptions): StatusTexts {
  const key = `${namespace}status`;
  const sealedAs = (field: string): string => `the status of ${field}`;
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

  redis.bus.on("status-wanted", () => {
    if (clock.monotonic() < writtenAt + WRITE_EVERY_MS) return;
    // The reader then shows fewer processes, and says how many there are.
    post().catch(() => undefined);
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
      await redis.bus.publish("status", { kind: "status-wanted" });
      const texts = await redis.run("status", key, (client) => client.hgetall(key));
      for (const field of seen.keys()) if (texts[field] === undefined) seen.delete(field);
      return Object.entries(texts)
        .filter(([field, text]) => field !== replica && isAlive(field, text))
        .flatMap(([field, text]) => seal.open(sealedAs(field), text, MOST_CHARACTERS) ?? []);
    },
  };
}

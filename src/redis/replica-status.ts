/**
 * The parts of the status page from all replicas: each one reads the texts of the others in Redis. A replica writes its text
 * only when one of them needs it: the reader asks the others to write theirs.
 *
 * `<ns>status` is a hash with one field for each replica. It expires.
 */
import { type Clock, pause } from "../process/clock.ts";
import type { Seal } from "../process/seal.ts";
import type { RedisService } from "./redis.ts";

export interface StatusTextsOptions {
  readonly redis: Pick<RedisService, "run" | "bus">;
  readonly clock: Clock;
  readonly namespace: string;
  /** The name of this replica. */
  readonly replica: string;
  /** Authenticates the texts, because others may write to Redis, too. */
  readonly seal: Seal;
}

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

export class StatusTexts {
  readonly #options: StatusTextsOptions;
  readonly #key: string;
  /** By replica: its last text, and when it was new. */
  readonly #seen = new Map<string, { readonly text: string; readonly at: number }>();
  #write = (): string => "";
  #writtenAt = Number.NEGATIVE_INFINITY;

  constructor(options: StatusTextsOptions) {
    const { redis, clock, namespace } = options;
    this.#options = options;
    this.#key = `${namespace}status`;
    redis.bus.on("status-wanted", () => {
      if (clock.monotonic() < this.#writtenAt + WRITE_EVERY_MS) return;
      // The reader then shows fewer processes, and says how many there are.
      this.#post().catch(() => undefined);
    });
  }

  /** @param write returns the text of this replica. Each text must differ from all earlier ones. */
  readonly show = (write: () => string): void => {
    this.#write = write;
  };

  /** Writes this replica's text. @returns the new texts of the others; rejects with `StoreUnavailable` without Redis */
  readonly look = async (): Promise<readonly string[]> => {
    const { redis, clock, replica, seal } = this.#options;
    await this.#post();
    await redis.bus.publish("status", { kind: "status-wanted" });
    await pause(clock, OTHERS_MS);
    const texts = await redis.run("status", this.#key, (client) => client.hgetall(this.#key));
    for (const field of this.#seen.keys()) if (texts[field] === undefined) this.#seen.delete(field);
    return Object.entries(texts)
      .filter(([field, text]) => field !== replica && this.#isAlive(field, text))
      .flatMap(([field, text]) => seal.open(sealedAs(field), text, MOST_CHARACTERS) ?? []);
  };

  async #post(): Promise<void> {
    const { redis, clock, replica, seal } = this.#options;
    const text = seal.seal(sealedAs(replica), this.#write());
    this.#writtenAt = clock.monotonic();
    await redis.run("status", this.#key, async (client) => {
      await client.hset(this.#key, replica, text);
      await client.pexpire(this.#key, KEPT_MS);
    });
  }

  /** @returns whether the process of a text is alive */
  #isAlive(field: string, text: string): boolean {
    const now = this.#options.clock.monotonic();
    const before = this.#seen.get(field);
    if (before?.text === text) return now < before.at + SILENT_MS;
    this.#seen.set(field, { text, at: now });
    return true;
  }
}

const sealedAs = (replica: string): string => `the status of ${replica}`;

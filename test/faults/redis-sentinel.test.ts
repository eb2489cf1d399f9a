/**
 * Sentinel, with a password: the master changes while there is traffic. A caller sees an answer or `StoreUnavailable`.
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../support/eventually.ts";

import { StoreUnavailable } from "../../src/cache/store/port.ts";
import { cacheKey } from "../../src/query/key.ts";
import { entryWith } from "../support/entries.ts";
import { backendOf, replicaOf, type WatchedBackend } from "../support/redis-backend.ts";
import { type RedisSentinel, startRedisSentinel } from "../support/redis.ts";

const KEYS = Array.from({ length: 20 }, (_, index) => cacheKey("json", `listings?areaId=${index}&offset=0`));

let sentinel: RedisSentinel;
beforeEach(async () => {
  sentinel = await startRedisSentinel();
});
afterEach(() => sentinel.close());

/** Reads and writes without a pause until stopped. */
function traffic(store: WatchedBackend): { stop: () => Promise<{ errors: unknown[]; writes: number }> } {
  const stopping = new AbortController();
  const errors: unknown[] = [];
  let writes = 0;
  async function caller(first: number): Promise<void> {
    for (let turn = first; !stopping.signal.aborted; turn++) {
      const key = KEYS[turn % KEYS.length] ?? "";
      try {
        await store.get(key);
        if ((await store.set(key, entryWith("body", Date.now()))) === true) writes++;
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) errors.push(error);
        // What is refused is refused at once: let the rest of the process live.
        await new Promise((resolve) => void setTimeout(resolve, 5));
      }
    }
  }
  const callers = [0, 5, 10, 15].map(caller);
  return {
    async stop() {
      stopping.abort();
      await Promise.all(callers);
      return { errors, writes };
    },
  };
}

describe("a failover", () => {
  it("because the master was killed: replicas recover without help", async () => {
    const [one, other] = [await replicaOf(sentinel.settings), await replicaOf(sentinel.settings)];
    const before = await sentinel.masterPort();
    const running = [traffic(one), traffic(other)];
    await sentinel.killMaster();
    await eventually(async () => expect(await sentinel.masterPort()).not.toBe(before));
    // Commands and messages work again at both: one writes, the other reads it and gets the announcement.
    const key = cacheKey("json", "sold?areaId=1");
    await eventually(async () => {
      const entry = entryWith("after", Date.now() + 1_000);
      expect(await one.set(key, entry)).toBe(true);
      expect((await other.get(key))?.storedAt).toBe(entry.storedAt);
      expect(other.events).toContainEqual({ kind: "stored", key, storedAt: expect.any(Number) });
    });
    for (const { stop } of running) {
      const { errors, writes } = await stop();
      expect(errors).toEqual([]);
      expect(writes).toBeGreaterThan(0);
    }
    expect((await one.purge({ kind: "all" }, true)).epoch).toBeGreaterThan(0);
    for (const { warnings, infos } of [one, other]) expect(infos.length).toBe(warnings.length);
  });

  it("without a Sentinel does not prevent the gateway from starting", async () => {
    await sentinel.close();
    const backend = backendOf(sentinel.settings);
    await expect(backend.get(KEYS[0] ?? "")).rejects.toBeInstanceOf(StoreUnavailable);
    await eventually(() => expect(backend.warnings).toHaveLength(1));
  });
});

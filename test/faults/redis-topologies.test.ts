/** A Cluster, and Sentinel with a password: keys lie anywhere, nodes fail, and the master changes while there is traffic. */
import { setTimeout } from "node:timers/promises";

import { beforeAll, beforeEach, describe, expect, it } from "vitest";

import { Problem } from "../../src/errors.ts";
import { StoreUnavailable } from "../../src/errors.ts";
import { cacheKey } from "../../src/query/key.ts";
import { entryWith } from "../support/entries.ts";
import { backendOf, gapsOf, replicaOf, type WatchedBackend } from "../support/redis-backend.ts";
import { type RedisCluster, sentinelForTest, startRedisCluster } from "../support/redis.ts";

const KEYS = Array.from({ length: 60 }, (_, index) => cacheKey("json", `listings?areaId=${index}&offset=0`));

describe("a Cluster", () => {
  let cluster: RedisCluster;
  // One for all tests; the last test stops a node of it.
  beforeAll(async () => {
    cluster = await startRedisCluster();
    return cluster.close;
  });
  beforeEach(() => Promise.all(cluster.servers.map(({ command }) => command("FLUSHALL"))));

  /** @param listensAt which node it subscribes at first */
  function replica(listensAt = 0): Promise<WatchedBackend> {
    const { settings } = cluster;
    const nodes = [...settings.nodes.slice(listensAt), ...settings.nodes.slice(0, listensAt)];
    return replicaOf({ ...settings, nodes });
  }

  it("delivers events, purges and flights to replicas that are subscribed at different nodes", async () => {
    const replicas = [await replica(0), await replica(1), await replica(2)] as const;
    for (const [index, key] of KEYS.slice(0, 12).entries()) {
      const leading = replicas[index % 3] ?? replicas[0];
      const following = replicas[(index + 1) % 3] ?? replicas[1];
      const lead = await leading.claims.claim(key);
      const follow = await following.claims.claim(key);
      if (lead?.kind !== "leader" || follow?.kind !== "follower")
        throw new Error(`${lead?.kind}, ${follow?.kind}`);
      const entry = entryWith(key, Date.now());
      await leading.set(key, entry);
      await lead.release(new Problem("upstream-error"));
      expect((await follow.ended)?.code).toBe("upstream-error");
      await expect
        .poll(() => following.events)
        .toContainEqual({ kind: "stored", key, storedAt: entry.storedAt });
    }
    const purge = await replicas[0].purge({ kind: "all" }, true);
    for (const { events } of replicas) {
      await expect.poll(() => events).toContainEqual({ kind: "purged", purges: [purge] });
    }
  });

  it("works on while slots move to another node", async () => {
    const { states, ...store } = await replica();
    await Promise.all(KEYS.map((key) => store.set(key, entryWith(key, Date.now()))));
    const [from, to] = cluster.servers;
    if (from === undefined || to === undefined) throw new Error("no servers");
    const moved: number[] = [];
    for (const key of KEYS) {
      const slot = Number(await from.command("CLUSTER", "KEYSLOT", key));
      if (slot > 5460) continue;
      const [fromId, toId] = [await from.command("CLUSTER", "MYID"), await to.command("CLUSTER", "MYID")];
      await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", String(fromId));
      await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", String(toId));
      await from.command("MIGRATE", "127.0.0.1", to.port, key, 0, 1000);
      // Asked for while the slot is on its way, and again when it has arrived.
      expect(await store.get(key)).toBeDefined();
      for (const { command } of [to, from]) await command("CLUSTER", "SETSLOT", slot, "NODE", String(toId));
      moved.push(slot);
    }
    expect(moved.length).toBeGreaterThan(5);
    const found = await Promise.all(KEYS.map((key) => store.get(key)));
    expect(found.filter((entry) => entry === undefined)).toEqual([]);
    expect(await Promise.all(KEYS.map((key) => store.set(key, entryWith("new", Date.now()))))).not.toContain(
      "newer-stored",
    );
    expect(states).toEqual([]);
  });

  it("with a node down reports an outage until the node is back, and the replica subscribes at another node", async () => {
    const backend = await replica(2);
    const { states, infos, warnings, ...store } = backend;
    await Promise.all(KEYS.map((key) => store.set(key, entryWith(key, Date.now()))));
    const gapsBefore = gapsOf(backend);
    await cluster.servers[2]?.kill();
    const attempts = await Promise.allSettled(KEYS.map((key) => store.get(key)));
    for (const attempt of attempts)
      if (attempt.status === "rejected") expect(attempt.reason).toBeInstanceOf(StoreUnavailable);
    await expect.poll(() => states).toContain("open");
    // It subscribes at another node by itself.
    await expect.poll(() => gapsOf(backend)).toBeGreaterThan(gapsBefore);
    await cluster.servers[2]?.restart();
    await expect.poll(() => states.at(-1)).toBe("closed");
    await expect
      .poll(() => Promise.all(KEYS.map((key) => store.set(key, entryWith("after", Date.now())))))
      .toEqual(KEYS.map(() => true));
    expect(warnings.length).toBe(infos.length);
  });
});

/** Reads and writes until the test says so. A store that is away may say so, and nothing else. @returns how often it wrote */
async function use(store: WatchedBackend, stopping: AbortSignal): Promise<number> {
  let writes = 0;
  for (let turn = 0; !stopping.aborted; turn++) {
    const key = KEYS[turn % KEYS.length] ?? "";
    const isStored = await store
      .get(key)
      .then(() => store.set(key, entryWith("body", Date.now())))
      .catch((error: unknown) => expect(error).toBeInstanceOf(StoreUnavailable));
    if (isStored === true) writes++;
    // Refusals come at once, so give the rest of the process time to run.
    else await setTimeout(5);
  }
  return writes;
}

describe("a failover", () => {
  it("because the master was killed: replicas recover without help", async () => {
    const sentinel = await sentinelForTest();
    const [one, other] = [await replicaOf(sentinel.settings), await replicaOf(sentinel.settings)];
    const before = await sentinel.masterPort();
    const stopping = new AbortController();
    const users = [one, other, one, other].map((store) => use(store, stopping.signal));
    await sentinel.killMaster();
    await expect.poll(() => sentinel.masterPort()).not.toBe(before);
    // Commands and messages work again at both: one writes, the other reads it and gets the announcement.
    const key = cacheKey("json", "sold?areaId=1");
    const works = async (): Promise<unknown[]> => {
      const entry = entryWith("after", Date.now() + 1_000);
      const isStored = await one.set(key, entry);
      return [isStored, (await other.get(key))?.storedAt === entry.storedAt, other.events];
    };
    const announced = expect.arrayContaining([{ kind: "stored", key, storedAt: expect.any(Number) }]);
    await expect.poll(works).toEqual([true, true, announced]);
    stopping.abort();
    for (const writes of await Promise.all(users)) expect(writes).toBeGreaterThan(0);
    expect((await one.purge({ kind: "all" }, true)).epoch).toBeGreaterThan(0);
    for (const { warnings, infos } of [one, other]) expect(infos.length).toBe(warnings.length);
  });

  it("without a Sentinel does not prevent the gateway from starting", async () => {
    const sentinel = await sentinelForTest();
    await sentinel.close();
    const backend = backendOf(sentinel.settings);
    await expect(backend.get(KEYS[0] ?? "")).rejects.toBeInstanceOf(StoreUnavailable);
    await expect.poll(() => backend.warnings).toHaveLength(1);
  });
});

/**
 * Failures of Redis. In each of them a caller gets an answer or `StoreUnavailable` at once, the log has one line at the
 * start and one at the end, and the backend recovers by itself.
 */
import { zstdCompressSync } from "node:zlib";

import { afterEach, describe, expect, it } from "vitest";
import { eventually } from "../support/eventually.ts";

import { toBlob } from "../../src/cache/store/codec.ts";
import { createSeal } from "../../src/process/seal.ts";
import { StoreUnavailable } from "../../src/cache/store/port.ts";
import type { RedisSettings } from "../../src/redis/connect.ts";
import { cacheKey } from "../../src/query/key.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { entryOf, openRedisBackend, SEAL, type WatchedBackend } from "../support/redis-backend.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";

const KEY = cacheKey("json", "listings?areaId=76&offset=0");

const opened: { close: () => Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

async function redis(...options: string[]): Promise<RedisServer> {
  const server = await startRedis(...options);
  opened.push(server);
  return server;
}

async function proxyOf(server: RedisServer): Promise<TcpProxy & { settings: RedisSettings }> {
  const proxy = await startTcpProxy(server.port);
  opened.push(proxy);
  return { ...proxy, settings: { ...server.settings, url: `redis://127.0.0.1:${proxy.port}` } };
}

function backendOf(...parameters: Parameters<typeof openRedisBackend>): WatchedBackend {
  const backend = openRedisBackend(...parameters);
  opened.push(backend);
  return backend;
}

/** Uses the store in every way, and expects each to be unavailable, and nothing else. */
async function expectUnavailable({ store, purge, claims }: WatchedBackend): Promise<void> {
  await expect(store.get(KEY)).rejects.toBeInstanceOf(StoreUnavailable);
  await expect(store.set(KEY, entryOf("new"))).rejects.toBeInstanceOf(StoreUnavailable);
  await expect(store.remove(KEY)).rejects.toBeInstanceOf(StoreUnavailable);
  await expect(purge({ kind: "all" }, false)).rejects.toBeInstanceOf(StoreUnavailable);
  expect(await claims.claim(KEY)).toEqual({ kind: "unavailable" });
}

async function expectRecovery({ states, warnings, infos, store }: WatchedBackend): Promise<void> {
  await eventually(() => expect(states.at(-1)).toBe("closed"));
  expect(warnings).toHaveLength(1);
  expect(infos).toEqual(["Redis"]);
  expect(await store.set(KEY, entryOf("after"))).toBe(true);
  expect((await store.get(KEY))?.bodyBytes).toBe("after".length);
}

/** Fails calls until the breaker has noticed. */
async function untilOpen({ store, states }: WatchedBackend): Promise<void> {
  await eventually(async () => {
    await store.get(KEY).catch(() => undefined);
    expect(states).toContain("open");
  });
}

describe("Redis", () => {
  it("killed, and started again empty", async () => {
    const server = await redis();
    const backend = backendOf(server.settings);
    await backend.set(KEY, entryOf("before"));
    await server.kill();
    await untilOpen(backend);
    await expectUnavailable(backend);
    await server.restart();
    await eventually(() => expect(backend.states.at(-1)).toBe("closed"));
    expect(await backend.get(KEY)).toBeUndefined();
    await expectRecovery(backend);
  });

  it("killed with a thousand lookups in flight", async () => {
    const server = await redis();
    const proxy = await proxyOf(server);
    const backend = backendOf(proxy.settings);
    await backend.set(KEY, entryOf("before"));
    proxy.blackHole();
    const lookups = Array.from({ length: 1000 }, () => backend.get(KEY));
    const settled = Promise.allSettled(lookups);
    proxy.cut();
    for (const lookup of await settled) {
      expect(lookup).toMatchObject({ status: "rejected", reason: expect.any(StoreUnavailable) });
    }
    proxy.heal();
    await expectRecovery(backend);
  });

  it("down while the gateway starts", async () => {
    const server = await redis();
    await server.kill();
    const backend = backendOf(server.settings);
    await expectUnavailable(backend);
    await server.restart();
    await expectRecovery(backend);
    await eventually(() => expect(backend.events).toContainEqual({ kind: "gap" }));
  });

  it("frozen: all waiting requests together cost one timeout, later ones nothing", async () => {
    const server = await redis();
    const clock = createFakeClock(Date.now());
    const backend = backendOf(server.settings, { clock, commandTimeoutMs: 50, probeIntervalMs: 1000 });
    await backend.set(KEY, entryOf("before"));
    server.freeze();
    const waiting = Array.from({ length: 1000 }, () => backend.get(KEY));
    const settled = Promise.allSettled(waiting);
    await clock.advance(50);
    for (const lookup of await settled)
      expect(lookup).toMatchObject({ reason: expect.any(StoreUnavailable) });
    // No time passes any more.
    await expectUnavailable(backend);
    expect(backend.warnings).toEqual(["Redis: no answer within 50 ms"]);
    await clock.advance(1000 + 50);
    expect(backend.states).toEqual(["open", "half-open", "open"]);
    await expectUnavailable(backend);

    server.thaw();
    await eventually(async () => {
      // While it is asking, only Redis' own time passes.
      if (backend.states.at(-1) === "open") await clock.advance(1000);
      expect(backend.states.at(-1)).toBe("closed");
    });
    expect(await backend.get(KEY)).toMatchObject({ bodyBytes: "before".length });
    expect(backend.infos).toEqual(["Redis"]);
  });

  it("loading its data", async () => {
    const server = await redis();
    await server.command("DEBUG", "POPULATE", "300");
    await server.command("SAVE");
    const backend = backendOf(server.settings, { commandTimeoutMs: 200 });
    await backend.set(KEY, entryOf("before"));
    await server.kill();
    await server.restart("--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024");
    await untilOpen(backend);
    await expectUnavailable(backend);
    await expectRecovery(backend);
    expect(await server.command("DBSIZE")).toBeGreaterThanOrEqual(300);
  });

  it("read-only: not used, because its data may be out of date", async () => {
    const server = await redis();
    const backend = backendOf(server.settings);
    await backend.set(KEY, entryOf("before"));
    await server.command("REPLICAOF", "127.0.0.1", "1");
    await expect(backend.set(KEY, entryOf("new"))).rejects.toBeInstanceOf(StoreUnavailable);
    await expectUnavailable(backend);
    expect(backend.warnings[0]).toContain("READONLY");
    // Asked again and again: it stays so, and it is not logged again.
    await eventually(() =>
      expect(backend.states.filter((state) => state === "half-open").length).toBeGreaterThan(2),
    );
    expect(backend.states).not.toContain("closed");
    await server.command("REPLICAOF", "NO", "ONE");
    await expectRecovery(backend);
  });

  it("out of memory: nothing is stored, everything else works", async () => {
    const server = await redis();
    const { store, purge, claims, states } = backendOf(server.settings);
    const other = cacheKey("json", "listings?areaId=77&offset=0");
    await store.set(KEY, entryOf("before"));
    await server.command("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction");
    expect(await store.set(other, entryOf("new"))).toBe("store-unavailable");
    expect(await store.get(KEY)).toMatchObject({ bodyBytes: "before".length });
    expect(await claims.claim(other)).toEqual({ kind: "unavailable" });
    await expect(purge({ kind: "all" }, false)).rejects.toBeInstanceOf(StoreUnavailable);
    await store.remove(KEY);
    expect(await store.get(KEY)).toBeUndefined();
    expect(states).toEqual([]);
    await server.command("CONFIG", "SET", "maxmemory", "0");
    expect(await store.set(other, entryOf("new"))).toBe(true);
  });

  it("with another password than ours, until it is changed there", async () => {
    const server = await redis();
    await server.command("ACL", "SETUSER", "gateway", "on", ">theirs", "~*", "&*", "+@all");
    const backend = backendOf({
      ...server.settings,
      url: `redis://gateway:o%3Aurs@127.0.0.1:${server.port}`,
    });
    await expectUnavailable(backend);
    expect(backend.warnings[0]).toContain("WRONGPASS");
    expect(backend.warnings[0]).not.toContain("urs@");
    await server.command("ACL", "SETUSER", "gateway", ">o:urs");
    await expectRecovery(backend);
  });

  it("slow: 100 ms for every answer", async () => {
    const server = await redis();
    const proxy = await proxyOf(server);
    const backend = backendOf(proxy.settings, { commandTimeoutMs: 50 });
    await eventually(async () => expect(await backend.set(KEY, entryOf("before"))).toBe(true));
    const warningsBefore = backend.warnings.length;
    proxy.delay(100);
    await expect(backend.get(KEY)).rejects.toBeInstanceOf(StoreUnavailable);
    await expectUnavailable(backend);
    expect(backend.warnings.slice(warningsBefore)).toHaveLength(1);
    proxy.delay(0);
    await eventually(async () =>
      expect(await backend.get(KEY)).toMatchObject({ bodyBytes: "before".length }),
    );
  });

  it("slow only because this process was busy: no fault", async () => {
    const server = await redis();
    const { store, states } = backendOf(server.settings, { commandTimeoutMs: 100 });
    await eventually(async () => expect(await store.set(KEY, entryOf("before"))).toBe(true));
    const faultsBefore = states.length;
    for (const isSent of [false, true]) {
      const lookup = store.get(KEY);
      if (isSent) await new Promise(setImmediate);
      // Longer than the timeout.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
      expect(await lookup).toMatchObject({ bodyBytes: "before".length });
    }
    expect(states).toHaveLength(faultsBefore);
  });

  it("behind a network that drops everything", async () => {
    const server = await redis();
    const proxy = await proxyOf(server);
    const backend = backendOf(proxy.settings, { commandTimeoutMs: 200 });
    await eventually(async () => expect(await backend.set(KEY, entryOf("before"))).toBe(true));
    await eventually(() => expect(backend.events).toContainEqual({ kind: "gap" }));
    const gapsBefore = backend.events.filter(({ kind }) => kind === "gap").length;
    proxy.blackHole();
    await expect(backend.get(KEY)).rejects.toBeInstanceOf(StoreUnavailable);
    await expectUnavailable(backend);
    proxy.heal();
    // The connections of before never say another word: both are replaced.
    await eventually(async () =>
      expect(await backend.get(KEY)).toMatchObject({ bodyBytes: "before".length }),
    );
    await eventually(() =>
      expect(backend.events.filter(({ kind }) => kind === "gap").length).toBeGreaterThan(gapsBefore),
    );
  });

  it("with a foreign, damaged or older value under our key: a miss, then our entry", async () => {
    const server = await redis();
    const { store, states, warnings } = backendOf(server.settings);
    // Of an earlier and of a later version of the gateway.
    const otherVersions = [2, 4].map((version) => {
      const blob = toBlob(KEY, entryOf("before", { storedAt: Date.now() + 86_400_000 }), SEAL);
      blob[3] = version;
      return blob;
    });
    const damaged = toBlob(KEY, entryOf("before", { storedAt: Date.now() - 1 }), SEAL);
    damaged[damaged.length - 1] = 0;
    // What somebody writes who knows the form of an entry, but not the private key.
    const bomb = zstdCompressSync(Buffer.alloc(500_000_000));
    const forged = toBlob(
      KEY,
      entryOf("before", { bodies: { zstd: bomb } }),
      createSeal(() => "a guess"),
    );
    const ofAnotherKey = toBlob(`${KEY}1`, entryOf("before"), SEAL);
    const giant = Buffer.alloc(20_000_000);
    const wrong = [...otherVersions, damaged, forged, ofAnotherKey, giant];
    for (const value of ["foreign", "PGE\u0003 but no more", ...wrong]) {
      await server.command("SET", KEY, value);
      expect(await store.get(KEY)).toBeUndefined();
      expect(await store.set(KEY, entryOf("after"))).toBe(true);
      expect(await store.get(KEY)).toMatchObject({ bodyBytes: "after".length });
    }
    expect(warnings).toEqual(Array.from({ length: 2 + wrong.length }, () => "unreadable"));
    await server.command("DEL", KEY);
    await server.command("LPUSH", KEY, "foreign");
    expect(await store.get(KEY)).toBeUndefined();
    expect(await store.set(KEY, entryOf("after"))).toBe(true);
    expect(await store.get(KEY)).toMatchObject({ bodyBytes: "after".length });
    expect(states).toEqual([]);
  });

  it("closed: nothing keeps the process alive", async () => {
    const server = await redis();
    const clock = createFakeClock(Date.now());
    const backend = backendOf(server.settings, { clock });
    await eventually(() => expect(backend.events).toContainEqual({ kind: "gap" }));
    await backend.set(KEY, entryOf("one"));
    expect((await backend.claims.claim(KEY))?.kind).toBe("leader");
    const following = await backend.claims.claim(KEY);
    await clock.advance(1_000);
    await backend.close();
    expect(await (following?.kind === "follower" && following.ended)).toEqual({ kind: "vacant" });
    expect(clock.pending).toBe(0);
    await eventually(async () =>
      expect(await server.command("CLIENT", "LIST")).not.toContain("name=property-gateway"),
    );
    await expectUnavailable(backend);
  });

  it("shared with other programs: their keys are not touched", async () => {
    const server = await redis();
    const foreign: Record<string, string> = {
      "property-gateway": "a",
      "property-gateway:2:x": "b",
      session: "c",
      "{purges}": "d",
    };
    for (const [key, value] of Object.entries(foreign)) await server.command("SET", key, value);
    const { store, purge, claims } = backendOf(server.settings);
    await store.set(KEY, entryOf("one"));
    await store.get(KEY);
    await purge({ kind: "all" }, true);
    const claim = await claims.claim(KEY);
    if (claim?.kind === "leader") await claim.release({ kind: "landed" });
    await store.remove(KEY);

    const keys = [await server.command("KEYS", "*")].flat().map(String);
    const theirs = keys.filter((key) => !key.startsWith("property-gateway:1:"));
    expect(theirs.toSorted()).toEqual(Object.keys(foreign).toSorted());
    for (const key of theirs) {
      expect(await server.command("GET", key)).toBe(foreign[key]);
      expect(await server.command("TTL", key)).toBe(-1);
    }
    const stats = String(await server.command("INFO", "commandstats"));
    expect(stats).not.toMatch(/cmdstat_(flush|scan)/);
  });
});

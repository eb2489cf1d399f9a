/**
 * Failures of Redis. In each of them a caller gets an answer or `StoreUnavailable` at once, the log has one line at the
 * start and one at the end, and the backend recovers by itself.
 */
import { describe, expect, it } from "vitest";
import { toBlob } from "../../src/cache/store/codec.ts";
import { StoreUnavailable } from "../../src/errors.ts";
import { cacheKey } from "../../src/query/key.ts";
import { entryWith } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import {
  backendOf,
  gapsOf,
  proxyOf,
  replicaOf,
  SEAL,
  type WatchedBackend,
} from "../support/redis-backend.ts";
import { redisForTest, type RedisServer } from "../support/redis.ts";
import type { TcpProxy } from "../support/tcp-proxy.ts";

const KEY = cacheKey("json", "listings?areaId=76&offset=0");
const entryOf = (body: string, storedAt = Date.now()): ReturnType<typeof entryWith> =>
  entryWith(body, storedAt);

/** Uses the store in every way, and expects each to be unavailable, and nothing else. */
async function expectUnavailable({ get, set, remove, purge, claims }: WatchedBackend): Promise<void> {
  await expect(get(KEY)).rejects.toBeInstanceOf(StoreUnavailable);
  await expect(set(KEY, entryOf("new"))).rejects.toBeInstanceOf(StoreUnavailable);
  await expect(remove(KEY)).rejects.toBeInstanceOf(StoreUnavailable);
  await expect(purge({ kind: "all" }, false)).rejects.toBeInstanceOf(StoreUnavailable);
  expect(await claims.claim(KEY)).toBeUndefined();
}

async function expectRecovery({ states, warnings, infos, get, set }: WatchedBackend): Promise<void> {
  await expect.poll(() => states.at(-1)).toBe("closed");
  expect(warnings).toHaveLength(1);
  expect(infos).toEqual(["Redis"]);
  expect(await set(KEY, entryOf("after"))).toBe(true);
  expect((await get(KEY))?.bodyBytes).toBe("after".length);
}

interface Broken {
  readonly server: RedisServer;
  readonly proxy: TcpProxy;
}

interface Failure {
  readonly breakIt: (broken: Broken) => unknown;
  readonly mendIt: (broken: Broken) => unknown;
  /** In the log line. */
  readonly says?: string;
  readonly commandTimeoutMs?: number;
  /** The subscription is lost too. */
  readonly isCut?: boolean;
  /** What was stored before is gone. */
  readonly isEmptied?: boolean;
}

const FAILURES: Readonly<Record<string, Failure>> = {
  "killed, and started again empty": {
    breakIt: ({ server }) => server.kill(),
    mendIt: ({ server }) => server.restart(),
    isCut: true,
    isEmptied: true,
  },
  "loading its data": {
    async breakIt({ server }) {
      await server.command("DEBUG", "POPULATE", "300");
      await server.command("SAVE");
      await server.kill();
      await server.restart("--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024");
    },
    mendIt: () => undefined,
    commandTimeoutMs: 200,
    isCut: true,
  },
  "read-only: not used, because its data may be out of date": {
    breakIt: ({ server }) => server.command("REPLICAOF", "127.0.0.1", "1"),
    mendIt: ({ server }) => server.command("REPLICAOF", "NO", "ONE"),
    says: "READONLY",
  },
  "slow: half a second for every answer": {
    breakIt: ({ proxy }) => proxy.delay(500),
    mendIt: ({ proxy }) => proxy.delay(0),
    commandTimeoutMs: 200,
    says: "no answer within 200 ms",
  },
  "behind a network that drops everything": {
    breakIt: ({ proxy }) => proxy.blackHole(),
    mendIt: ({ proxy }) => proxy.heal(),
    commandTimeoutMs: 200,
    says: "no answer within 200 ms",
    isCut: true,
  },
};

/** Fails calls until the breaker has noticed. */
async function untilOpen({ get, set, states }: WatchedBackend): Promise<void> {
  const fail = async (): Promise<unknown> => {
    await get(KEY).catch(() => undefined);
    await set(KEY, entryOf("new")).catch(() => undefined);
    return states;
  };
  await expect.poll(fail).toContain("open");
}

describe("Redis", () => {
  it.each(Object.entries(FAILURES))("%s", async (_name, { breakIt, mendIt, says = "", ...failure }) => {
    const server = await redisForTest();
    const { proxy, settings } = await proxyOf(server);
    const { commandTimeoutMs = 2_000 } = failure;
    const backend = await replicaOf(settings, { commandTimeoutMs });
    await backend.set(KEY, entryOf("before"));
    const gaps = gapsOf(backend);
    await breakIt({ server, proxy });
    await untilOpen(backend);
    await expectUnavailable(backend);
    expect(backend.warnings[0]).toContain(says);
    await mendIt({ server, proxy });
    await expect.poll(() => backend.states.at(-1)).toBe("closed");
    expect((await backend.get(KEY))?.bodyBytes).toBe(failure.isEmptied ? undefined : "before".length);
    await expectRecovery(backend);
    if (failure.isCut) await expect.poll(() => gapsOf(backend)).toBeGreaterThan(gaps);
  });

  it.each<[string, string, (server: RedisServer) => unknown, (server: RedisServer) => unknown]>([
    ["down", "ECONNREFUSED", (server) => server.kill(), (server) => server.restart()],
    [
      "with another password than ours, until it is changed there,",
      "WRONGPASS",
      (server) => server.command("ACL", "SETUSER", "gateway", "on", ">theirs", "~*", "&*", "+@all"),
      (server) => server.command("ACL", "SETUSER", "gateway", "on", ">o:urs", "~*", "&*", "+@all"),
    ],
  ])("%s while the gateway starts: %s", async (_name, says, breakIt, mendIt) => {
    const server = await redisForTest();
    await breakIt(server);
    const backend = backendOf({
      ...server.settings,
      url: `redis://${says === "WRONGPASS" ? "gateway:o%3Aurs@" : ""}127.0.0.1:${server.port}`,
    });
    await expectUnavailable(backend);
    expect(backend.warnings[0]).toContain(says);
    expect(backend.warnings[0]).not.toContain("urs@");
    await mendIt(server);
    await expectRecovery(backend);
    await expect.poll(() => gapsOf(backend)).toBeGreaterThan(0);
  });

  it("killed with a thousand lookups in flight", async () => {
    const { proxy, settings } = await proxyOf(await redisForTest());
    const backend = backendOf(settings);
    await backend.set(KEY, entryOf("before"));
    proxy.blackHole();
    const settled = Promise.allSettled(Array.from({ length: 1000 }, () => backend.get(KEY)));
    proxy.cut();
    for (const lookup of await settled)
      expect(lookup).toMatchObject({ status: "rejected", reason: expect.any(StoreUnavailable) });
    proxy.heal();
    await expectRecovery(backend);
  });

  it("frozen: all waiting requests together cost one timeout, later ones nothing", async () => {
    const server = await redisForTest();
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
    const advanced = async (): Promise<unknown> => {
      // While it is asking, only Redis' own time passes.
      if (backend.states.at(-1) === "open") await clock.advance(1000);
      return backend.states.at(-1);
    };
    await expect.poll(advanced).toBe("closed");
    expect(await backend.get(KEY)).toMatchObject({ bodyBytes: "before".length });
    expect(backend.infos).toEqual(["Redis"]);
  });

  it("out of memory, or without the right to a command: that is refused, everything else works", async () => {
    const server = await redisForTest();
    const store = backendOf(server.settings);
    const other = cacheKey("json", "listings?areaId=77&offset=0");
    await store.set(KEY, entryOf("before"));
    await server.command("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction");
    await expect(store.set(other, entryOf("new"))).rejects.toBeInstanceOf(StoreUnavailable);
    expect(await store.get(KEY)).toMatchObject({ bodyBytes: "before".length });
    expect(await store.claims.claim(other)).toBeUndefined();
    await expect(store.purge({ kind: "all" }, false)).rejects.toBeInstanceOf(StoreUnavailable);
    await store.remove(KEY);
    expect(await store.get(KEY)).toBeUndefined();
    expect(store.warnings).toEqual([expect.stringMatching(/: OOM [^:]*'maxmemory'\.$/)]);
    await server.command("CONFIG", "SET", "maxmemory", "0");
    await server.command("ACL", "SETUSER", "default", "-unlink");
    await expect(store.remove(KEY)).rejects.toBeInstanceOf(StoreUnavailable);
    expect(await store.set(other, entryOf("new"))).toBe(true);
    expect(store.states).toEqual([]);
  });

  it("slow only because this process was busy: no fault", async () => {
    const server = await redisForTest();
    const { states, ...store } = backendOf(server.settings, { commandTimeoutMs: 100 });
    await expect.poll(() => store.set(KEY, entryOf("before"))).toBe(true);
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

  it("with a foreign or older value under our key: a miss, then our entry", async () => {
    const server = await redisForTest();
    const { states, warnings, ...store } = backendOf(server.settings);
    // Of an earlier version of the gateway. codec.test.ts has what else is no entry.
    const older = await toBlob(KEY, entryOf("before", Date.now() + 86_400_000), SEAL);
    older[3] = 2;
    for (const value of ["foreign", "PGE\u0003 but no more", older]) {
      await server.command("SET", KEY, value);
      expect(await store.get(KEY)).toBeUndefined();
      expect(await store.set(KEY, entryOf("after"))).toBe(true);
      expect(await store.get(KEY)).toMatchObject({ bodyBytes: "after".length });
    }
    expect(warnings).toEqual(["unreadable", "unreadable", "unreadable"]);
    await server.command("DEL", KEY);
    await server.command("LPUSH", KEY, "foreign");
    await expect(store.get(KEY)).rejects.toBeInstanceOf(StoreUnavailable);
    expect(await store.set(KEY, entryOf("after"))).toBe(true);
    expect(await store.get(KEY)).toMatchObject({ bodyBytes: "after".length });
    expect(states).toEqual([]);
  });

  it("closed: nothing keeps the process alive", async () => {
    const server = await redisForTest();
    const clock = createFakeClock(Date.now());
    const backend = backendOf(server.settings, { clock });
    await expect.poll(() => backend.events).toContainEqual({ kind: "gap" });
    await backend.set(KEY, entryOf("one"));
    expect((await backend.claims.claim(KEY))?.kind).toBe("leader");
    const following = await backend.claims.claim(KEY);
    await clock.advance(1_000);
    await backend.close();
    expect(await (following?.kind === "follower" && following.ended)).toBeUndefined();
    expect(clock.pending).toBe(0);
    await expect.poll(() => server.command("CLIENT", "LIST")).not.toContain("name=property-gateway");
    await expectUnavailable(backend);
  });
});

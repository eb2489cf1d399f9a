/**
 * The messages of replicas through one Redis, and what a disconnected replica misses.
 */
import { describe, expect, it } from "vitest";
import { eventually } from "../support/eventually.ts";

import type { BackendEvent } from "../../src/cache/store/port.ts";
import type { Purge } from "../../src/cache/store/purges.ts";
import { Secret } from "../../src/config/secret.ts";
import { StoreUnavailable } from "../../src/cache/store/port.ts";
import { systemClock } from "../../src/process/clock.ts";
import { createBoard } from "../../src/redis/board.ts";
import { cacheKey, NAMESPACE } from "../../src/query/key.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { entryOf, SEAL, startReplicas } from "../support/redis-backend.ts";

const KEY = cacheKey("json", "listings?areaId=76&offset=0");
const HARD = true;

const { redis, replica, remoteReplica } = startReplicas();

function purgesIn(events: readonly BackendEvent[]): Purge[] {
  return events.flatMap((event) => (event.kind === "purged" ? event.purges : []));
}

describe("an entry stored by one replica", () => {
  it("is announced to the other replicas only", async () => {
    const [one, other] = [await replica(), await replica()];
    const entry = entryOf("new");
    await one.store.set(KEY, entry);
    const announced = { kind: "stored", key: KEY, storedAt: entry.storedAt };
    await eventually(() => expect(other.events).toContainEqual(announced));
    await other.purge({ kind: "all" }, HARD);
    await eventually(() => expect(purgesIn(one.events)).toHaveLength(1));
    expect(one.events).not.toContainEqual(announced);
  });

  it("is announced only if it was stored", async () => {
    const [one, other] = [await replica(), await replica()];
    const storedAt = Date.now();
    await one.store.set(KEY, entryOf("newer", { storedAt }));
    expect(await one.store.set(KEY, entryOf("older", { storedAt: storedAt - 1 }))).toBe("newer-stored");
    await one.purge({ kind: "all" }, HARD);
    await eventually(() => expect(purgesIn(other.events)).toHaveLength(1));
    expect(other.events.flatMap((event) => (event.kind === "stored" ? [event.storedAt] : []))).toEqual([
      storedAt,
    ]);
  });
});

describe("the board", () => {
  it("shows what the other replicas write, and nothing that anyone else writes", async () => {
    const boards = [await replica(), await replica()].map(({ service }, nth) =>
      createBoard({
        redis: service,
        clock: systemClock,
        namespace: NAMESPACE,
        name: "status",
        process: `replica-${nth}`,
        seal: SEAL,
      }),
    );
    boards.forEach((board, nth) => board.show(() => `${performance.now()} of ${nth}`));
    await boards[1]?.look();
    const key = `${NAMESPACE}board:status`;
    const ofAnother = String(await redis().command("HGET", key, "replica-1"));
    await redis().command("HSET", key, "replica-2", ofAnother, "replica-3", '{"processes":1e9}');
    expect(await boards[0]?.look()).toEqual([expect.stringContaining(" of 1")]);
  });
});

describe("a purge", () => {
  it("reaches every replica, with a later epoch than every purge before", async () => {
    const [one, other] = [await replica(), await replica()];
    const declared: Purge[] = [];
    for (const backend of [one, other, one]) {
      declared.push(await backend.purge({ kind: "tag", tag: 'area:"76"' }, !HARD));
      declared.push(await backend.purge({ kind: "key", key: KEY }, HARD));
    }
    await eventually(() => expect(purgesIn(other.events)).toEqual(declared));
    await eventually(() => expect(purgesIn(one.events)).toEqual(declared));
    const epochs = declared.map(({ epoch }) => epoch);
    expect(epochs).toEqual([...new Set(epochs)].toSorted((a, b) => a - b));
  });

  it("reaches a replica that starts after it", async () => {
    const purge = await (await replica()).purge({ kind: "resource", resource: "sold" }, !HARD);
    const late = await replica();
    await eventually(() => expect(purgesIn(late.events)).toEqual([purge]));
  });

  it("reaches a replica that was disconnected, after the gap was reported to it", async () => {
    const one = await replica();
    const { proxy, backend: remote } = await remoteReplica();
    const before = await one.purge({ kind: "tag", tag: "area:1" }, HARD);
    await eventually(() => expect(purgesIn(remote.events)).toEqual([before]));
    proxy.blackHole();
    const missed = await one.purge({ kind: "tag", tag: "area:2" }, HARD);
    remote.events.length = 0;
    proxy.cut();
    proxy.heal();
    await eventually(() => expect(purgesIn(remote.events)).toContainEqual(missed));
    expect(remote.events[0]).toEqual({ kind: "gap" });
    expect(purgesIn(remote.events)).toEqual([before, missed]);
  });

  it("reaches a replica that did not get the message", async () => {
    const clock = createFakeClock(Date.now());
    const listening = await replica(redis().settings, {
      clock,
      commandTimeoutMs: 1e12,
      probeIntervalMs: 1_000,
    });
    // As if declared elsewhere, and the message never sent.
    const lost = { epoch: Date.now(), scope: { kind: "all" }, hard: true };
    await redis().command("ZADD", "property-gateway:1:{purges}", lost.epoch, JSON.stringify(lost));
    expect(purgesIn(listening.events)).toEqual([]);
    for (let second = 0; second < 11; second++) await clock.advance(1_000);
    await eventually(() => expect(purgesIn(listening.events)).toEqual([lost]));
    // Once is enough.
    for (let second = 0; second < 11; second++) await clock.advance(1_000);
    expect(purgesIn(listening.events)).toEqual([lost]);
  });

  it("survives the loss of Redis' data, and the next epoch is later", async () => {
    const one = await replica();
    const purge = await one.purge({ kind: "all" }, HARD);
    await redis().kill();
    await redis().restart();
    // Redis does not have it. The replica that has it writes it again.
    await eventually(async () =>
      expect(await redis().command("ZCARD", "property-gateway:1:{purges}")).toBe(1),
    );
    const late = await replica();
    await eventually(() => expect(purgesIn(late.events)).toEqual([purge]));
    expect((await late.purge({ kind: "all" }, HARD)).epoch).toBeGreaterThan(purge.epoch);
  });

  it("has a later epoch than all that its replica knows, even if Redis is empty and its clock is behind", async () => {
    const one = await replica();
    const ahead = { epoch: Date.now() + 3_600_000, scope: { kind: "all" }, hard: false } as const;
    await redis().command(
      "PUBLISH",
      "property-gateway:1:events",
      JSON.stringify({ kind: "purged", purges: [ahead] }),
    );
    await eventually(() => expect(purgesIn(one.events)).toEqual([ahead]));
    expect((await one.purge({ kind: "all" }, HARD)).epoch).toBe(ahead.epoch + 1);
  });

  it("is kept as long as an older entry can exist, in bounded space", async () => {
    const one = await replica(redis().settings, { retentionMs: 3_600_000 });
    const now = Date.now();
    const marks = Array.from({ length: 2_000 }, (_, index) => {
      const epoch = index < 10 ? index + 1 : now - 2_000 + index;
      return [
        epoch,
        JSON.stringify({ epoch, scope: { kind: "tag", tag: `area:${index}` }, hard: index === 42 }),
      ];
    });
    await redis().command("ZADD", "property-gateway:1:{purges}", ...marks.flat());
    const late = await replica();
    await eventually(() => expect(purgesIn(late.events).length).toBeGreaterThan(0));
    const told = purgesIn(late.events);
    expect(told.length).toBeLessThanOrEqual(500);
    // What was folded is covered by a purge of everything that is not older, and as hard.
    const [folded] = told;
    expect(folded).toMatchObject({ scope: { kind: "all" }, hard: true });
    expect(told.slice(1).map(({ scope }) => (scope.kind === "tag" ? scope.tag : ""))).toEqual(
      Array.from({ length: told.length - 1 }, (_, index) => `area:${2_000 - (told.length - 1) + index}`),
    );
    expect(folded?.epoch).toBe(now - 2_000 + (2_000 - told.length));
    expect((await one.purge({ kind: "all" }, HARD)).epoch).toBeGreaterThan(now - 1);
  });

  it("fails if Redis is down", async () => {
    const { proxy, backend } = await remoteReplica({ commandTimeoutMs: 200 });
    proxy.blackHole();
    await expect(backend.purge({ kind: "all" }, HARD)).rejects.toBeInstanceOf(StoreUnavailable);
  });
});

describe("the count of entries", () => {
  it("counts our entries by resource beside other data, and is unknown for a very large database", async () => {
    const one = await replica();
    const keys = ["sold/1", "sold?q=x:listings", "areas?q=[a-z]*"].map((query) => cacheKey("json", query));
    for (const key of [...keys, cacheKey("v2", "sold/1")]) await one.store.set(key, entryOf("one"));
    await one.claims.claim(cacheKey("json", "sold/2"));
    await one.purge({ kind: "all" }, HARD);
    await redis().command("SET", "other:{json:sold/1}", "of others");
    const counts = [one.count("sold"), one.count("areas"), one.count("listings"), one.count()];
    expect(await Promise.all(counts)).toEqual([3, 1, 0, 4]);

    await redis().command("DEBUG", "POPULATE", 60_000);
    expect(await one.count("sold")).toBeUndefined();
  });

  it("is unknown if Redis forbids it, without an outage", async () => {
    await redis().command("ACL", "SETUSER", "limited", "on", ">pass", "~*", "&*", "+@all", "-scan");
    const one = await replica({ ...redis().settings, username: "limited", password: new Secret("pass") });
    expect(await one.count()).toBeUndefined();
    expect(one.states).toEqual([]);
  });
});

describe("a message on the channel", () => {
  it.each([
    "no JSON",
    "[]",
    "null",
    '{"kind":"stored"}',
    '{"kind":"purged","purges":[{"epoch":1}]}',
    '{"kind":"new"}',
  ])("is ignored if it is malformed: %s", async (message) => {
    const [one, other] = [await replica(), await replica()];
    const before = [...one.events];
    await redis().command("PUBLISH", "property-gateway:1:events", message);
    const entry = entryOf("new");
    await other.store.set(KEY, entry);
    const stored = { kind: "stored", key: KEY, storedAt: entry.storedAt };
    await eventually(() => expect(one.events).toContainEqual(stored));
    expect(one.events.slice(before.length).filter(({ kind }) => kind !== "purged")).toEqual([stored]);
    expect(purgesIn(one.events)).toEqual([]);
  });
});

/**
 * The messages of replicas through one Redis, and what a disconnected replica misses.
 */
import { describe, expect, it } from "vitest";
import type { StoreEvent } from "../../src/cache/store/port.ts";
import type { Purge } from "../../src/cache/store/purge-marks.ts";
import { cacheKey, NAMESPACE } from "../../src/query/key.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { entryWith } from "../support/entries.ts";
import {
  NEVER,
  OUTSIDER,
  proxyOf,
  redisForFile,
  replicaOf,
  SEAL,
  type WatchedBackend,
} from "../support/redis-backend.ts";

const KEY = cacheKey("json", "listings?areaId=76&offset=0");
const STREAM = `${NAMESPACE}{purged}`;
const HARD = true;

const redis = redisForFile();
const replica = (options?: Parameters<typeof replicaOf>[1]): Promise<WatchedBackend> =>
  replicaOf(redis().settings, options);

const sealed = (envelope: object): string => SEAL.seal("a message", JSON.stringify(envelope));

function purgesIn(events: readonly StoreEvent[]): Purge[] {
  return events.flatMap((event) => (event.kind === "purged" ? event.purges : []));
}

it("an entry stored by one replica is announced to the other replicas only, and only if it was stored", async () => {
  const [one, other] = [await replica(), await replica()];
  const storedAt = Date.now();
  await one.set(KEY, entryWith("newer", storedAt));
  expect(await one.set(KEY, entryWith("older", storedAt - 1))).toBe("newer-stored");
  for (const backend of [one, other]) await backend.purge({ kind: "all" }, HARD);
  for (const { events } of [one, other]) await expect.poll(() => purgesIn(events)).toHaveLength(2);
  const announced = [one, other].map(({ events }) => events.filter(({ kind }) => kind === "stored"));
  expect(announced).toEqual([[], [{ kind: "stored", key: KEY, storedAt }]]);
});

describe("a purge", () => {
  it("reaches every replica, with a later epoch than every purge before", async () => {
    const [one, other, third] = [await replica(), await replica(), await replica()];
    const declared: Purge[] = [];
    // A replica reads its own purges with those of the others.
    for (const backend of [one, other, one, other]) {
      declared.push(await backend.purge({ kind: "tag", tag: 'area:"76"' }, !HARD));
      declared.push(await backend.purge({ kind: "key", key: KEY }, HARD));
    }
    for (const { events } of [one, third]) await expect.poll(() => purgesIn(events)).toEqual(declared);
    const epochs = declared.map(({ epoch }) => epoch);
    expect(epochs).toEqual([...new Set(epochs)].toSorted((a, b) => a - b));
  });

  it("reaches a replica that was disconnected, after the gap was reported to it", async () => {
    const one = await replica();
    const { proxy, settings } = await proxyOf(redis());
    const remote = await replicaOf(settings);
    const before = await one.purge({ kind: "tag", tag: "area:1" }, HARD);
    await expect.poll(() => purgesIn(remote.events)).toEqual([before]);
    proxy.blackHole();
    const missed = await one.purge({ kind: "tag", tag: "area:2" }, HARD);
    remote.events.length = 0;
    proxy.cut();
    proxy.heal();
    await expect.poll(() => purgesIn(remote.events)).toContainEqual(missed);
    expect(remote.events[0]).toEqual({ kind: "gap" });
    expect(purgesIn(remote.events)).toEqual([before, missed]);
  });

  it("reaches a replica that did not get the message", async () => {
    const clock = createFakeClock(Date.now());
    const listening = await replica({ clock, ...NEVER });
    const lost = { scope: { kind: "all" }, hard: true };
    const known: object[] = [];
    for (const number of [7, 8]) {
      // As if declared elsewhere, and the message never sent.
      await redis().command("XADD", STREAM, `1700000000000-${number}`, "purge", JSON.stringify(lost));
      expect(purgesIn(listening.events)).toEqual(known);
      await clock.advance(11_000);
      known.push({ epoch: 1_700_000_000_000_000 + number, ...lost });
      // Each once.
      await expect.poll(() => purgesIn(listening.events)).toEqual(known);
    }
  });

  it("is ignored if it is longer than any that the admin port accepts", async () => {
    const [one, other] = [await replica(), await replica()];
    const scope = { kind: "key", key: "k".repeat(30_000) };
    await redis().command("XADD", STREAM, "*", "purge", JSON.stringify({ scope, hard: true }));
    const next = await one.purge({ kind: "all" }, HARD);
    await expect.poll(() => purgesIn(other.events)).toEqual([next]);
  });

  it("has a later epoch than all that its replica knows, even if Redis is empty and its clock is behind", async () => {
    const one = await replica();
    const aheadMs = Date.now() + 3_600_000;
    await redis().command("XADD", STREAM, `${aheadMs}-0`, "purge", '{"scope":{"kind":"all"},"hard":false}');
    await redis().command("PUBLISH", OUTSIDER.channel, OUTSIDER.textOf({ kind: "purged" }));
    await expect.poll(() => purgesIn(one.events)).toHaveLength(1);
    await redis().command("DEL", STREAM);
    expect((await one.purge({ kind: "all" }, HARD)).epoch).toBe(aheadMs * 1_000 + 1);
  });

  it("is kept in bounded space; what may be forgotten is covered by a purge of everything", async () => {
    const one = await replica({ retentionMs: 3_600_000 });
    const areas = Array.from({ length: 1_010 }, (_, area) => `area:${area}`);
    await Promise.all(areas.map((tag) => one.purge({ kind: "tag", tag }, !HARD)));
    const late = await replica();
    // They may be reported again, when the subscription is up.
    await expect
      .poll(() => new Set(purgesIn(late.events).map((one) => JSON.stringify(one))).size)
      .toBe(1_001);
    const [everything, oldest] = purgesIn(late.events);
    expect(oldest?.scope).toEqual({ kind: "tag", tag: "area:10" });
    expect(everything).toEqual({ epoch: oldest?.epoch, scope: { kind: "all" }, hard: true });
    expect(Number(await redis().command("PTTL", STREAM))).toBeGreaterThan(3_600_000);
  });
});

it.each<[string, string]>([
  ["not sealed", '{"from":"outsider","message":{"kind":"purged"}}'],
  ["of an unknown kind", sealed({ from: "outsider", cache: NAMESPACE, message: { kind: "news" } })],
  ["malformed", sealed({ from: "outsider", cache: NAMESPACE, message: { kind: "stored", key: 7 } })],
  ["sealed under another name", SEAL.seal("another", '{"from":"outsider","message":{"kind":"purged"}}')],
])("a message on the channel is ignored if it is %s", async (_how, message) => {
  const [one, other] = [await replica(), await replica()];
  const before = [...one.events];
  await redis().command("PUBLISH", OUTSIDER.channel, message);
  const stored = { kind: "stored", key: KEY, storedAt: Date.now() };
  await other.set(KEY, entryWith("new", stored.storedAt));
  await expect.poll(() => one.events).toContainEqual(stored);
  expect(one.events.slice(before.length).filter(({ kind }) => kind !== "purged")).toEqual([stored]);
  expect(purgesIn(one.events)).toEqual([]);
});

/**
 * Flights among replicas, with real leases in a real Redis.
 */
import { describe, expect, it, onTestFinished } from "vitest";
import { Problem } from "../../src/errors.ts";
import { type Claim, ReplicaLeases } from "../../src/singleflight/replica-leases.ts";
import { cacheKey } from "../../src/query/key.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import {
  backendOf,
  NEVER,
  OUTSIDER,
  proxyOf,
  redisForFile,
  replicaOf,
  type WatchedBackend,
} from "../support/redis-backend.ts";

const KEY = cacheKey("json", "listings?areaId=76&offset=0");

type Leader = Extract<Claim, { kind: "leader" }>;
type Follower = Extract<Claim, { kind: "follower" }>;

const redis = redisForFile();
const replica = (): Promise<WatchedBackend> => replicaOf(redis().settings);
const replicas = (): Promise<[WatchedBackend, WatchedBackend, WatchedBackend]> =>
  Promise.all([replica(), replica(), replica()]);
const claim = (backend: WatchedBackend, key = KEY): Promise<Claim | undefined> => backend.claims.claim(key);

async function leader(backend: WatchedBackend, key = KEY): Promise<Leader> {
  const claimed = await claim(backend, key);
  if (claimed?.kind !== "leader") throw new Error(`not the leader: ${claimed?.kind}`);
  return claimed;
}

async function follower(backend: WatchedBackend, key = KEY): Promise<Follower> {
  const claimed = await claim(backend, key);
  if (claimed?.kind !== "follower") throw new Error(`not a follower: ${claimed?.kind}`);
  return claimed;
}

describe("a flight", () => {
  it("that landed or was withdrawn ends for its followers, and the key is free", async () => {
    // No time passes, so the followers do not wait for the end of the lease.
    const clock = createFakeClock(Date.now());
    const one = await replica();
    const other = await replicaOf(redis().settings, { clock });
    const third = await replicaOf(redis().settings, { clock });
    const leading = await leader(one);
    const following = [await follower(other), await follower(third)];
    await leading.release(undefined);
    for (const { ended } of following) expect(await ended).toBeUndefined();
    expect((await claim(other))?.kind).toBe("leader");
  });

  it("that failed gives its followers the leader's problem", async () => {
    const [one, other, third] = await replicas();
    const leading = await leader(one);
    const following = await follower(other);
    const internal = "not for others: 10.0.0.7";
    await leading.release(new Problem("upstream-unavailable", { retryAfterSeconds: 120, internal }));
    const failure = await following.ended;
    expect(failure).toBeInstanceOf(Problem);
    expect(failure).toMatchObject({ code: "upstream-unavailable", details: { retryAfterSeconds: 120 } });
    expect(JSON.stringify(failure?.details)).not.toContain("10.0.0.7");
    // Every other replica learns of it, whether or not it waits.
    for (const { failed } of [other, third])
      await expect.poll(() => failed.map(({ key }) => key)).toEqual([KEY]);
  });

  it("that ends while a follower joins still ends for that follower", async () => {
    const [one, other] = await replicas();
    for (let round = 0; round < 300; round++) {
      const key = cacheKey("json", `listings?areaId=${round}`);
      const leading = await leader(one, key);
      const [claimed] = await Promise.all([claim(other, key), leading.release(undefined)]);
      if (claimed?.kind === "follower") expect(await claimed.ended).toBeUndefined();
      else expect(claimed?.kind).toBe("leader");
    }
  });

  it("is not ended by a late message about an earlier flight of the same key", async () => {
    const [one, other] = await replicas();
    const leading = await leader(one);
    const following = await follower(other);
    const holder = "of an earlier flight";
    const late = OUTSIDER.textOf({ kind: "flight-ended", key: KEY, holder });
    await redis().command("PUBLISH", OUTSIDER.channel, late);
    await leading.release(new Problem("upstream-error"));
    expect((await following.ended)?.code).toBe("upstream-error");
  });

  it("keeps its leader while it takes longer than a lease; its followers then follow it again", async () => {
    const [one, other] = await replicas();
    const leading = await leader(one);
    // So two renewals may fail, which are a second apart.
    expect(await redis().command("PTTL", `${KEY}:flight`)).toBeGreaterThan(2_000);
    const following = await follower(other);
    expect(await following.ended).toBeUndefined();
    const again = await follower(other);
    await leading.release(undefined);
    expect(await again.ended).toBeUndefined();
    // The former leader does not renew the claim of the next one, which may have died.
    await redis().command("SET", `${KEY}:flight`, "next", "PX", 1_200);
    await expect.poll(() => redis().command("EXISTS", `${KEY}:flight`)).toBe(0);
  });

  it("is not ended by a former leader that has lost it", async () => {
    const [one, other, third] = await replicas();
    const lost = await leader(one);
    await redis().command("DEL", `${KEY}:flight`);
    const now = await leader(other);
    const following = await follower(third);
    await lost.release(new Problem("upstream-error"));
    expect((await claim(one))?.kind).toBe("follower");
    await now.release(undefined);
    expect(await following.ended).toBeUndefined();
  });

  it("is not followed any longer by a replica without waiters", async () => {
    // No time passes there, so no lease ends.
    const clock = createFakeClock(Date.now());
    const [one, other] = [await replica(), await replicaOf(redis().settings, { clock, ...NEVER })];
    await leader(one);
    const waiters = new AbortController();
    const claims = [await other.claims.claim(KEY, waiters.signal)];
    waiters.abort();
    claims.push(await other.claims.claim(KEY, waiters.signal));
    for (const claimed of claims)
      expect(claimed?.kind === "follower" && (await claimed.ended)).toBeUndefined();
  });

  it("is not shared while Redis is down: followers continue alone at once", async () => {
    const clock = createFakeClock(Date.now());
    const { proxy, settings } = await proxyOf(redis());
    const remote = await replicaOf(settings, { clock, ...NEVER, commandTimeoutMs: 200 });
    await leader(await replica());
    const following = await follower(remote);
    proxy.blackHole();
    const claiming = claim(remote, cacheKey("json", "sold?areaId=1"));
    await clock.advance(200);
    // No time passes any more.
    expect(await claiming).toBeUndefined();
    expect(await following.ended).toBeUndefined();
    expect(await claim(remote)).toBeUndefined();
  });

  it("is over at once for followers that lose their subscription", async () => {
    const clock = createFakeClock(Date.now());
    const [one, other] = [await replica(), await replicaOf(redis().settings, { clock, ...NEVER })];
    await leader(one);
    const following = await follower(other);
    await redis().command("CLIENT", "KILL", "TYPE", "pubsub");
    expect(await following.ended).toBeUndefined();
  });

  it("is claimed again by a replica that may have missed its end while it claimed it", async () => {
    const [one, other] = await replicas();
    await leader(one);
    let claims = 0;
    const newHolder = (): string => `claim ${++claims}`;
    const leases = new ReplicaLeases(other.service, newHolder, () => undefined);
    onTestFinished(() => leases.close());
    const claiming = leases.claim(KEY, new AbortController().signal);
    other.service.emit("gap");
    expect((await claiming)?.kind).toBe("follower");
    expect(claims).toBe(2);
  });

  it("is not followed by a replica without a subscription", async () => {
    await redis().command("ACL", "SETUSER", "deaf", "on", "nopass", "~*", "&*", "+@all", "-subscribe");
    const deaf = backendOf({ ...redis().settings, url: `redis://deaf:x@127.0.0.1:${redis().port}` });
    const one = await replica();
    await leader(one);
    expect(await claim(deaf)).toBeUndefined();
    const other = cacheKey("json", "sold?areaId=1");
    expect((await claim(deaf, other))?.kind).toBe("leader");
  });
});

/**
 * Flights among replicas, with real leases in a real Redis.
 */
import { describe, expect, it } from "vitest";
import { eventually } from "../support/eventually.ts";

import { Problem } from "../../src/errors.ts";
import type { Claim, ClaimEnd } from "../../src/singleflight/replicas.ts";
import { createBus } from "../../src/redis/bus.ts";
import { cacheKey, NAMESPACE } from "../../src/query/key.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { openRedisBackend, SEAL, startReplicas, type WatchedBackend } from "../support/redis-backend.ts";

const KEY = cacheKey("json", "listings?areaId=76&offset=0");

type Leader = Extract<Claim, { kind: "leader" }>;
type Follower = Extract<Claim, { kind: "follower" }>;

/** For a clock that a test moves: nothing but what is tested falls due. */
const LONG_TIMEOUTS = { commandTimeoutMs: 1e12, probeIntervalMs: 1e12 };

const { redis, opened, replica, remoteReplica } = startReplicas();

async function claim(backend: WatchedBackend, key = KEY): Promise<Claim> {
  const claimed = await backend.claims.claim(key);
  return claimed;
}

async function leader(backend: WatchedBackend, key = KEY): Promise<Leader> {
  const claimed = await claim(backend, key);
  if (claimed.kind !== "leader") throw new Error(`not the leader: ${claimed.kind}`);
  return claimed;
}

async function follower(backend: WatchedBackend, key = KEY): Promise<Follower> {
  const claimed = await claim(backend, key);
  if (claimed.kind !== "follower") throw new Error(`not a follower: ${claimed.kind}`);
  return claimed;
}

describe("a flight", () => {
  it("has one leader among four replicas", async () => {
    const replicas = await Promise.all([1, 2, 3, 4].map(() => replica()));
    const keys = Array.from({ length: 25 }, (_, index) => cacheKey("json", `listings?areaId=${index}`));
    for (const key of keys) {
      const claims = await Promise.all(replicas.map((backend) => claim(backend, key)));
      expect(claims.map(({ kind }) => kind).toSorted()).toEqual([
        "follower",
        "follower",
        "follower",
        "leader",
      ]);
    }
  });

  it.each<[string, ClaimEnd]>([
    ["landed", { kind: "landed" }],
    ["was withdrawn", { kind: "vacant" }],
  ])("that %s ends for its followers, and the key is free", async (_how, end) => {
    const [one, other, third] = [await replica(), await replica(), await replica()];
    const leading = await leader(one);
    const following = [await follower(other), await follower(third)];
    await leading.release(end);
    for (const { ended } of following) expect(await ended).toEqual(end);
    expect((await claim(other)).kind).toBe("leader");
  });

  it("that failed gives its followers the leader's problem", async () => {
    const [one, other, third] = [await replica(), await replica(), await replica()];
    const leading = await leader(one);
    const following = await follower(other);
    const problem = new Problem("upstream-unavailable", {
      detail: "Maintenance until noon.",
      retryAfterSeconds: 120,
      internal: "not for others: 10.0.0.7",
    });
    await leading.release({ kind: "failed", problem });
    const end = await following.ended;
    if (end.kind !== "failed") throw new Error(`not failed: ${end.kind}`);
    expect(end.problem).toBeInstanceOf(Problem);
    expect(end.problem.code).toBe("upstream-unavailable");
    expect(end.problem.details).toMatchObject({ detail: "Maintenance until noon.", retryAfterSeconds: 120 });
    expect(JSON.stringify(end.problem.details)).not.toContain("10.0.0.7");
    expect(end.problem.details.refusedHere).toBeUndefined();
    // Every other replica learns of it, whether or not it waits.
    for (const { failed } of [other, third])
      await eventually(() => expect(failed.map(({ key }) => key)).toEqual([KEY]));
  });

  it("that was refused by its leader is marked as refused for its followers", async () => {
    const [one, other] = [await replica(), await replica()];
    const leading = await leader(one);
    const following = await follower(other);
    const problem = new Problem("upstream-unavailable", { refusedHere: true, retryAfterSeconds: 5 });
    await leading.release({ kind: "failed", problem });
    expect(await following.ended).toMatchObject({
      problem: { code: "upstream-unavailable", details: { refusedHere: true, retryAfterSeconds: 5 } },
    });
  });

  it("that ends while a follower joins still ends for that follower", async () => {
    const [one, other] = [await replica(), await replica()];
    for (let round = 0; round < 300; round++) {
      const key = cacheKey("json", `listings?areaId=${round}`);
      const leading = await leader(one, key);
      const [claimed] = await Promise.all([claim(other, key), leading.release({ kind: "landed" })]);
      if (claimed.kind === "follower") expect(await claimed.ended).toEqual({ kind: "landed" });
      else expect(claimed.kind).toBe("leader");
    }
  });

  it("is not ended by a late message about an earlier flight of the same key", async () => {
    const [one, other] = [await replica(), await replica()];
    const leading = await leader(one);
    const following = await follower(other);
    const outsider = createBus(
      { namespace: NAMESPACE, cache: NAMESPACE, replica: "outsider", seal: SEAL },
      () => expect.unreachable(),
    );
    const late = outsider.textOf({
      kind: "flight-ended",
      key: KEY,
      holder: "of an earlier flight",
      end: { kind: "landed" },
    });
    await redis().command("PUBLISH", outsider.channel, late);
    await leading.release({ kind: "failed", problem: new Problem("upstream-error") });
    expect((await following.ended).kind).toBe("failed");
  });

  it("is free when the leader has died and its lease has expired", async () => {
    const { proxy, backend: dying } = await remoteReplica();
    const other = await replica();
    await leader(dying);
    const following = await follower(other);
    proxy.blackHole();
    expect(await following.ended).toEqual({ kind: "vacant" });
    expect((await claim(other)).kind).toBe("leader");
  });

  it("keeps its leader while it takes longer than a lease; its followers then follow it again", async () => {
    const [one, other] = [await replica(), await replica()];
    const leading = await leader(one);
    const following = await follower(other);
    expect(await following.ended).toEqual({ kind: "vacant" });
    const again = await follower(other);
    await leading.release({ kind: "landed" });
    expect(await again.ended).toEqual({ kind: "landed" });
  });

  it("is not ended by a former leader that has lost it", async () => {
    const [one, other, third] = [await replica(), await replica(), await replica()];
    const lost = await leader(one);
    await redis().command("DEL", `${KEY}:flight`);
    const now = await leader(other);
    const following = await follower(third);
    await lost.release({ kind: "failed", problem: new Problem("upstream-error") });
    expect((await claim(one)).kind).toBe("follower");
    await now.release({ kind: "landed" });
    expect(await following.ended).toEqual({ kind: "landed" });
  });

  it("is not shared while Redis is down: followers continue alone at once", async () => {
    const clock = createFakeClock(Date.now());
    const { proxy, backend: remote } = await remoteReplica({
      clock,
      ...LONG_TIMEOUTS,
      commandTimeoutMs: 200,
    });
    await leader(await replica());
    const following = await follower(remote);
    proxy.blackHole();
    const claiming = claim(remote, cacheKey("json", "sold?areaId=1"));
    await clock.advance(200);
    // No time passes any more.
    expect((await claiming).kind).toBe("unavailable");
    expect(await following.ended).toEqual({ kind: "vacant" });
    expect((await claim(remote)).kind).toBe("unavailable");
  });

  it("is vacant at once for followers that lose their subscription", async () => {
    const clock = createFakeClock(Date.now());
    const [one, other] = [await replica(), await replica(redis().settings, { clock, ...LONG_TIMEOUTS })];
    await leader(one);
    const following = await follower(other);
    await redis().command("CLIENT", "KILL", "TYPE", "pubsub");
    expect(await following.ended).toEqual({ kind: "vacant" });
  });

  it("is not followed by a replica without a subscription", async () => {
    await redis().command("ACL", "SETUSER", "deaf", "on", "nopass", "~*", "&*", "+@all", "-subscribe");
    const deaf = openRedisBackend({ ...redis().settings, url: `redis://deaf:x@127.0.0.1:${redis().port}` });
    opened.push(deaf);
    const one = await replica();
    await leader(one);
    expect((await claim(deaf)).kind).toBe("unavailable");
    const other = cacheKey("json", "sold?areaId=1");
    expect((await claim(deaf, other)).kind).toBe("leader");
  });

  it("is vacant for followers that close", async () => {
    const [one, other] = [await replica(), await replica()];
    await leader(one);
    const following = await follower(other);
    await other.close();
    expect(await following.ended).toEqual({ kind: "vacant" });
    expect((await claim(other)).kind).toBe("unavailable");
  });
});

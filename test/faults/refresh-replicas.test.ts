/**
 * Refreshing among gateway processes that share a Redis, and what becomes of it when one of them dies.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { ask, type Reply } from "../support/ask.ts";
import { type Fleet, type Replica, startFleet } from "../support/fleet.ts";
import { post } from "../support/post.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { cacheStatus } from "../support/reply.ts";

const PATH = "/listings?areaId=76&limit=5";
const OTHER = "/areas?q=Nacka";
const UPDATING = { hit: true, detail: "stale-while-revalidate" };

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

type Three = readonly [Replica, Replica, Replica];

/** Three replicas that all hold an answer which has just expired, and what it says. */
async function startExpired(): Promise<{ fleet: Fleet; replicas: Three; text: string }> {
  await redis.command("FLUSHALL");
  const fleet = await startFleet({
    REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    REPLICAS: "3",
    BUDGET: "100000/1m",
    CACHE_STALE_WHILE_REVALIDATE: "listings=1h",
  });
  const start = async (): Promise<Replica> => {
    const replica = await fleet.start();
    // In use: purges were read, so it listens.
    await expect
      .poll(async () => (await ask(`${replica.admin}/metrics`)).text)
      .toMatch(/operation="purges"\} [1-9][^]*breaker_state\{store="redis"\} 0/);
    await expect.poll(async () => (await ask(`${replica.admin}/readyz`)).status).toBe(200);
    return replica;
  };
  const replicas = await Promise.all([start(), start(), start()]);
  // By the upstream's word it is out of date when it comes.
  fleet.sandbox.faults.add({ headers: { "Cache-Control": "max-age=0" }, times: 1, pathPrefix: "/listings" });
  const { text } = await ask(replicas[0].url + PATH);
  for (const { url } of replicas) await ask(url + OTHER);
  fleet.sandbox.revise({ pathPrefix: "/listings" });
  fleet.sandbox.clearRequests();
  return { fleet, replicas, text };
}

async function landed({ admin }: Replica): Promise<void> {
  await expect.poll(async () => (await ask(`${admin}/metrics`)).text).toContain("gateway_flights 0");
}

function expectStale(reply: Reply, text: string): void {
  expect([reply.status, reply.text]).toEqual([200, text]);
  expect(cacheStatus(reply)).toMatchObject(UPDATING);
}

describe("an answer that has just expired, asked of three replicas", () => {
  it("at once costs one refresh, and all who ask get the old one meanwhile", async () => {
    const { fleet, replicas, text } = await startExpired();
    fleet.sandbox.hold();
    const asked = replicas.flatMap(({ url }) => Array.from({ length: 20 }, () => ask(url + PATH)));
    for (const reply of await Promise.all(asked)) expectStale(reply, text);
    await fleet.sandbox.waitForRequests(1);
    fleet.sandbox.release();
    await Promise.all(replicas.map(landed));
    for (const { url } of replicas) {
      const next = await ask(url + PATH);
      expect(next.text).not.toBe(text);
      expect(cacheStatus(next)).toMatchObject({ hit: true });
      expect(cacheStatus(next)["detail"]).not.toBe("stale-while-revalidate");
    }
    expect(fleet.sandbox.requests()).toHaveLength(1);
  });

  it("one of which is killed while it refreshes: the others answer at once, and one of them refreshes", async () => {
    const { fleet, replicas, text } = await startExpired();
    const [leader, ...others] = replicas;
    fleet.sandbox.hold();
    expectStale(await ask(leader.url + PATH), text);
    await fleet.sandbox.waitForRequests(1);
    leader.process.child.kill("SIGKILL");
    await leader.process.ended;
    // The dead one's claim has to run out first: until then, and while the new one is held, all get the old answer.
    await expect
      .poll(async () => {
        const replies = await Promise.all(others.map(({ url }) => ask(url + PATH)));
        for (const reply of replies) expectStale(reply, text);
        return fleet.sandbox.requests().length;
      })
      .toBe(2);
    fleet.sandbox.release();
    await Promise.all(others.map(landed));
    for (const { url } of others) expect((await ask(url + PATH)).text).not.toBe(text);
    expect(fleet.sandbox.requests()).toHaveLength(2);
  });

  it("one of which fails to refresh it: the others hear of that, and do not try at once", async () => {
    const { fleet, replicas, text } = await startExpired();
    const [first, ...others] = replicas;
    fleet.sandbox.faults.add({ status: 500, pathPrefix: "/listings" });
    expectStale(await ask(first.url + PATH), text);
    await fleet.sandbox.waitForRequests(2);
    await landed(first);
    // What is said later arrives later: who knows of the purge has heard of the failure.
    expect((await post(`${first.admin}/cache/purge`, `{"url":"${OTHER}"}`)).status).toBe(200);
    for (const { url, admin } of others) {
      await expect
        .poll(async () => (await ask(`${admin}/cache/entry?url=${encodeURIComponent(OTHER)}`)).json())
        .toMatchObject({ why: "purged" });
      for (let caller = 0; caller < 5; caller++) {
        const reply = await ask(url + PATH);
        expect([reply.status, reply.text]).toEqual([200, text]);
        expect(cacheStatus(reply)).toMatchObject({ hit: true, detail: "upstream-error" });
      }
    }
    expect(fleet.sandbox.requests()).toHaveLength(2);
  });
});
